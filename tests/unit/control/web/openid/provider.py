"""A real provider of OpenID Connect: Django OAuth Toolkit, in a process of its own on a free port of the loopback.

Run as a module with a folder and a port it is the provider. ``people.json`` in the folder has the groups of everybody
by name, and is read at each log-in; the password of all is ``PASSWORD``. ``client.json`` is
the one client: whether it is a public one, and whether its groups are told at the userinfo endpoint alone.
"""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from tests.stores.servers import free_port

PASSWORD = "correct horse battery"
SIGN_IN = """<form method="post">{% csrf_token %}<label>Name <input name="username"></label>
<label>Password <input name="password" type="password"></label><button>Sign in</button></form>"""
CLIENT, SECRET = "branchline", "a secret with : and % in it"
WAIT_S = 240


class Provider:
    """The process, which knows one client and some people."""

    def __init__(self, folder: Path, return_url: str, people: Mapping[str, Sequence[str]], **client: bool) -> None:
        folder.mkdir()
        self.folder = folder
        self.set_people(people)
        about = {"return_url": return_url, "public": False, "userinfo": False, **client}
        (folder / "client.json").write_text(json.dumps(about), encoding="utf-8")
        command = [sys.executable, "-m", "tests.unit.control.web.openid.provider", str(folder), str(free_port())]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.issuer = self.process.stdout.readline().strip()
        assert self.issuer, "the provider did not begin"

    def set_people(self, people: Mapping[str, Sequence[str]]) -> None:
        """Changes the groups of people."""
        (self.folder / "people.json").write_text(json.dumps(people), encoding="utf-8")

    def __enter__(self) -> Provider:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.process.terminate()
        self.process.communicate(timeout=WAIT_S)


def _configure(folder: Path, issuer: str) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from django.conf import settings

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    settings.configure(
        ALLOWED_HOSTS=["localhost"],
        SECRET_KEY=os.urandom(32).hex(),
        ROOT_URLCONF="tests.unit.control.web.openid.provider_site",
        INSTALLED_APPS=[
            "django.contrib.contenttypes",
            "django.contrib.auth",
            "django.contrib.sessions",
            "oauth2_provider",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "db.sqlite")}},
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {
                    "loaders": [("django.template.loaders.locmem.Loader", {"registration/login.html": SIGN_IN})]
                },
            }
        ],
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        LOGIN_URL="/sign-in",
        # Browsers know cookies by host alone, and the control room is another port of it.
        SESSION_COOKIE_NAME="provider",
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True,
            "OIDC_ISS_ENDPOINT": issuer,
            "OIDC_RSA_PRIVATE_KEY": pem,
            "PKCE_REQUIRED": True,
            "SCOPES": {"openid": "who one is", "profile": "name and groups"},
            "OAUTH2_VALIDATOR_CLASS": "tests.unit.control.web.openid.provider_site.Validator",
        },
        PEOPLE=folder / "people.json",
        CLIENT=json.loads((folder / "client.json").read_text(encoding="utf-8")),
    )


def _fill(folder: Path) -> None:
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from oauth2_provider.models import Application

    call_command("migrate", verbosity=0)
    for name in json.loads((folder / "people.json").read_text(encoding="utf-8")):
        User.objects.create_user(name, password=PASSWORD)
    client = settings.CLIENT
    Application.objects.create(
        client_id=CLIENT,
        client_secret="" if client["public"] else SECRET,
        client_type=Application.CLIENT_PUBLIC if client["public"] else Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_AUTHORIZATION_CODE,
        algorithm=Application.RS256_ALGORITHM,
        redirect_uris=client["return_url"],
        skip_authorization=True,
    )


class _Threads(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def _serve(folder: Path, port: int) -> None:
    # Another host than that of the control room, so that browsers take it for another site.
    issuer = f"http://localhost:{port}/o"
    _configure(folder, issuer)
    import django
    from django.core.wsgi import get_wsgi_application

    django.setup()
    _fill(folder)
    with _Threads(("127.0.0.1", port), _Quiet) as server:
        server.set_app(get_wsgi_application())
        print(issuer, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
