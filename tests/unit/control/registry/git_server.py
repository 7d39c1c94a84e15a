"""A real git server on the loopback: git's own http-backend behind a small web server."""

from __future__ import annotations

import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")


def git(folder: Path, *words: str) -> str:
    """What a command of git prints."""
    done = subprocess.run(["git", *AUTHOR, *words], cwd=folder, capture_output=True, text=True, timeout=280, check=True)
    return done.stdout.strip()


class GitServer:
    """Serves the repository ``wagons.git`` in a folder, with a working copy to commit in; ends with the block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.copy = folder / "copy"
        self.copy.mkdir(parents=True)
        git(self.copy, "init", "--quiet")
        git(folder, "init", "--quiet", "--bare", "wagons.git")
        bare = folder / "wagons.git"
        for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            git(bare, "config", name, "true")
        (bare / "git-daemon-export-ok").touch()
        git(self.copy, "remote", "add", "origin", str(bare))
        self.asked: list[str] = []
        self.sent_bytes = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}/wagons.git"

    def __enter__(self) -> GitServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def commit(self, files: dict[str, str | bytes], branch: str = "main") -> str:
        """Commits files, and gives the commit."""
        git(self.copy, "checkout", "--quiet", "-B", branch)
        for name, content in files.items():
            path = self.copy / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.committed(branch)

    def committed(self, branch: str = "main") -> str:
        """Commits what is in the working copy."""
        git(self.copy, "add", "--all")
        git(self.copy, "commit", "--quiet", "--allow-empty", "--message", "a change")
        git(self.copy, "push", "--quiet", "--force", "origin", branch, "--tags")
        return git(self.copy, "rev-parse", "HEAD")

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                server.asked.append(self.path)
                environment = {
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(server.folder),
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REMOTE_ADDR": "127.0.0.1",
                }
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                done = subprocess.run(
                    ["git", "http-backend"], env=environment, input=body, capture_output=True, timeout=280, check=False
                )
                head, _, content = done.stdout.partition(b"\r\n\r\n")
                server.sent_bytes += len(content)
                headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
                self.send_response(int(headers.pop("Status", "200").split()[0]))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - as http.server calls it

            def log_message(self, *args: object) -> None:
                pass

        return Handler
