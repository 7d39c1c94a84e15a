"""Wagons from a real git server: one file of one commit, and nothing else, whatever the repository has."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.control.registry.git_server import GitServer, git

from branchline.control.registry.git_sources import GitPlace, GitSources
from branchline.control.room_errors import ConflictError, RefusedError
from branchline.errors import OptionError

FIRST = "class Count:\n    def process(self, events):\n        return {'n': len(events)}\n"
SECOND = FIRST.replace("len(events)", "2 * len(events)")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path / "git") as server:
        yield server


def shared(server: GitServer) -> GitSources:
    return GitSources([server.host])


def test_a_branch_a_tag_and_a_commit_are_resolved(server: GitServer) -> None:
    first = server.commit({"wagons/muons.py": FIRST})
    git(server.copy, "tag", "-a", "v1", "-m", "the first")
    second = server.commit({"wagons/muons.py": SECOND})
    server.commit({"wagons/muons.py": FIRST + "# mine\n"}, "feature/mine")
    fetch = shared(server).fetch
    assert fetch(GitPlace(server.url, "wagons/muons.py", "main")) == fetch(
        GitPlace(server.url, "wagons/muons.py", second)
    )
    found = fetch(GitPlace(server.url, "wagons/muons.py", "v1"))
    assert (found.commit, found.content.decode()) == (first, FIRST)
    assert fetch(GitPlace(server.url, "wagons/muons.py", first)).content.decode() == FIRST
    assert fetch(GitPlace(server.url, "wagons/muons.py", "feature/mine")).content.decode().endswith("# mine\n")


def test_only_the_file_comes(server: GitServer) -> None:
    for number in range(3):
        server.commit({"wagons.py": FIRST + f"# {number}\n", "data.bin": os.urandom(300_000)})
    before = server.sent_bytes
    assert shared(server).fetch(GitPlace(server.url, "wagons.py", "main")).content.decode().endswith("# 2\n")
    assert server.sent_bytes - before < 10_000


def test_nothing_of_the_server_s_user_is_used_for_others(
    server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.commit({"wagons.py": FIRST})
    home = tmp_path / "home"
    home.mkdir()
    trace = tmp_path / "hook"
    (home / ".gitconfig").write_text(
        f'[url "http://127.0.0.1:1/"]\n  insteadOf = {server.url}\n[credential]\n  helper = "!touch {trace}"\n'
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert shared(server).fetch(GitPlace(server.url, "wagons.py", "main")).content.decode() == FIRST
    assert not trace.exists()


@pytest.mark.parametrize(
    "repository",
    [
        "file:///etc",
        "/etc",
        "ssh://git@git.example.org/x",
        "git@git.example.org:x",
        "git://git.example.org/x",
        "ext::sh -c touch% /x",
        "http://git.example.org/x",
        "https://user:secret@git.example.org/x",
        "https://user@git.example.org/x",
        "https://git.example.org/x?y",
        "--upload-pack=touch /x",
        "https://-oProxyCommand=x/y",
        "https://[::1/x",
        "https://git.example.org:99999/x",
        "",
        "x\ny",
    ],
)
def test_addresses_that_are_not_for_others_are_refused(repository: str) -> None:
    with pytest.raises(OptionError) as raised:
        GitSources(["git.example.org"]).fetch(GitPlace(repository, "wagons.py"))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("repository", ["https://169.254.169.254/x", "https://git.example.org.evil.example/x"])
def test_other_hosts_than_those_that_are_named_are_refused(repository: str) -> None:
    with pytest.raises(RefusedError, match=r"sources from '.*' are not allowed .*git\.example\.org"):
        GitSources(["git.example.org"]).fetch(GitPlace(repository, "wagons.py"))
    with pytest.raises(RefusedError, match="does not allow sources from git"):
        GitSources([]).fetch(GitPlace(repository, "wagons.py"))


@pytest.mark.parametrize(
    "path", ["../wagons.py", "/etc/x.py", "-x.py", ":(top)x.py", "x", "", "a\n.py", "a" * 5000 + ".py"]
)
def test_paths_that_are_none_are_refused(server: GitServer, path: str) -> None:
    with pytest.raises(OptionError, match="is not a Python file in a repository"):
        shared(server).fetch(GitPlace(server.url, path))


@pytest.mark.parametrize(
    "ref", ["--upload-pack=x", "-q", "a..b", "a b", "x:y", "refs/../x", "a^{tree}", "", "x\n", "+x"]
)
def test_refs_that_are_none_are_refused(server: GitServer, ref: str) -> None:
    with pytest.raises(OptionError, match="is not a branch, tag or commit"):
        shared(server).fetch(GitPlace(server.url, "wagons.py", ref))


def test_what_is_not_there_is_said(server: GitServer) -> None:
    server.commit({"wagons.py": FIRST, "folder/x.py": FIRST})
    fetch = shared(server).fetch
    for place, said in {
        GitPlace(server.url, "other.py", "main"): r"there is no other\.py in .* at main",
        GitPlace(server.url, "wagons.py", "gone"): "couldn't find remote ref gone",
        GitPlace(server.url, "wagons.py", "0" * 40): "not our ref",
        GitPlace(f"http://{server.host}/other.git", "wagons.py", "main"): "not found|500|404",
    }.items():
        with pytest.raises(OptionError, match=said):
            fetch(place)


def test_links_folders_and_large_files_are_refused(server: GitServer, tmp_path: Path) -> None:
    (server.copy / "link.py").symlink_to("/etc/passwd")
    (server.copy / "folder.py").mkdir()
    (server.copy / "folder.py" / "x").write_text("x")
    (server.copy / "large.py").write_bytes(b"#" * 2_000_000)
    server.committed()
    for name, said in {
        "link.py": "is not a file",
        "folder.py": "is not a file",
        "large.py": "more than 1048576 bytes",
    }.items():
        with pytest.raises(OptionError, match=said):
            shared(server).fetch(GitPlace(server.url, name, "main"))


def test_a_large_repository_does_not_fill_the_disk(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    git(server.folder / "wagons.git", "config", "uploadpack.allowFilter", "false")
    server.commit({"wagons.py": FIRST, "large.bin": os.urandom(3_000_000)})
    place = GitPlace(server.url, "wagons.py", "main")
    assert shared(server).fetch(place).content.decode() == FIRST
    monkeypatch.setattr("branchline.control.registry.git_sources.GIT_DISK_BYTES", 1_000_000)
    with pytest.raises(OptionError, match="git cannot fetch"):
        shared(server).fetch(place)


def test_a_silent_server_is_left_and_others_are_not_held_up_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.registry.git_sources.GIT_WAIT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        sources, place = GitSources([host]), GitPlace(f"http://{host}/x", "wagons.py")
        with pytest.raises(OptionError, match=r"127\.0\.0\.1 did not send the sources within 1 s"):
            sources.fetch(place)
        errors: list[Exception] = []

        def fetch() -> None:
            try:
                sources.fetch(place)
            except (OptionError, ConflictError) as error:
                errors.append(error)

        threads = [threading.Thread(target=fetch) for _ in range(5)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(30)
        assert len(errors) == 5


def test_somebody_alone_takes_them_from_a_folder_too(server: GitServer) -> None:
    server.commit({"wagons.py": FIRST})
    found = GitSources().fetch(GitPlace(str(server.folder / "wagons.git"), "wagons.py", "main"))
    assert found.content.decode() == FIRST
