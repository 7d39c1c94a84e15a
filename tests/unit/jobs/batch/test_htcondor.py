"""What HTCondor is told of a train: its files can be read by it, and no secret is in them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from branchline.errors import BatchError
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.system import batch_system
from branchline.jobs.batch.task_steps import TaskStep

#: What users set for servers: with values that nobody else may see, and with paths and options.
SECRETS = ("BEARER_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "BRANCHLINE_REPORT_TOKEN",
           "BRANCHLINE_LATER_TOKEN", "XrdSecCREDS", "https_proxy")  # fmt: skip
SETTINGS = ("HOME", "PATH", "X509_USER_PROXY", "X509_CERT_DIR", "KRB5CCNAME", "XRD_STREAMTIMEOUT", "XrdSecPROTOCOL",
            "BEARER_TOKEN_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL_S3",
            "AWS_WEB_IDENTITY_TOKEN_FILE", "BRANCHLINE_STORAGE_TRIES", "BRANCHLINE_REPORT_TOKEN_FILE")  # fmt: skip


@pytest.fixture(autouse=True)
def without_htcondor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files are written, and then the first of its commands is missing; nothing of who tests is set."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    for name in (*SECRETS, *SETTINGS, "AWS_CONFIG_FILE", "AWS_DEFAULT_PROFILE"):
        if name not in ("HOME", "PATH"):
            monkeypatch.delenv(name, raising=False)


def described(folder: Path) -> dict[str, str]:
    """The commands of the submit description of a train that is submitted from here."""
    step = TaskStep("0.0", 2, ("python", "-m", "task"), folder, folder)
    with pytest.raises(BatchError, match="the command condor_submit_dag was not found"):
        batch_system("htcondor").submit("train", [step], folder, Site())
    lines = (folder / "0.0.sub").read_text().splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}


def travels(name: str, patterns: str) -> bool:
    """Whether HTCondor copies a variable into the job: it has patterns of those that do, behind a ! of others."""
    words = [one.strip() for one in patterns.split(",")]
    refused = any(fnmatchcase(name, one[1:]) for one in words if one.startswith("!"))
    return not refused and any(fnmatchcase(name, one) for one in words)


def test_paths_and_options_travel_with_jobs_and_secrets_do_not(tmp_path: Path) -> None:
    patterns = described(tmp_path)["getenv"]
    assert [one for one in SECRETS if travels(one, patterns)] == []
    assert [one for one in SETTINGS if not travels(one, patterns)] == []


@pytest.mark.parametrize(
    ("secret", "file"),
    [("BEARER_TOKEN", "BEARER_TOKEN_FILE"), ("AWS_SECRET_ACCESS_KEY", "AWS_SHARED_CREDENTIALS_FILE")],
)
def test_a_secret_that_is_only_a_value_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: str, file: str
) -> None:
    system = batch_system("htcondor")
    monkeypatch.setenv(secret, "very.secret")
    step = TaskStep("0.0", 1, ("python",), tmp_path, tmp_path)
    for ask in (lambda: system.check(tmp_path), lambda: system.submit("train", [step], tmp_path, Site())):
        with pytest.raises(BatchError, match=f"so {secret} is not passed") as raised:
            ask()
        assert f"write it to a file that all nodes can read and set {file} to its path" in str(raised.value.hint)
        assert "very.secret" not in str(raised.value)
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(file, str(tmp_path / "secret"))
    assert "very.secret" not in "".join(described(tmp_path).values())


@pytest.mark.parametrize("name", ["my out", "a\ttab", 'the "best"', "it's", "$HOME", "back\\slash"])
def test_a_folder_that_its_files_cannot_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BatchError, match="submit files of HTCondor cannot express") as raised:
        batch_system("htcondor").check(tmp_path / name / "out")
    assert raised.value.path == str(tmp_path / name / "out")
    assert "without spaces, quotes" in str(raised.value.hint)
