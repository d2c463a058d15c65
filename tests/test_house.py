"""The house's own rules: layers, migrations, lazy import, short modules, a complete wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "django_stephooks"
MAX_LINES = 400


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python at the root of the project, without this process's Django settings."""
    inherited = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_layer_imports_only_what_it_may() -> None:
    result = run_python("-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.django_db
def test_models_and_migrations_agree() -> None:
    call_command("makemigrations", "django_stephooks", "testapp", check=True, dry_run=True, verbosity=0)


def test_package_imports_without_settings_and_without_models() -> None:
    result = run_python(
        "-W",
        "error",
        "-c",
        "import sys, django_stephooks\n"
        "from django.conf import settings\n"
        "assert not settings.configured\n"
        "loaded = sorted(m for m in sys.modules if m.startswith('django_stephooks.models'))\n"
        "assert not loaded, loaded\n",
    )
    assert result.returncode == 0, result.stderr


def test_every_public_name_is_there() -> None:
    result = run_python(
        "-c",
        "import django, django_stephooks\n"
        "django.setup()\n"
        "assert django_stephooks.__all__\n"
        "for name in django_stephooks.__all__:\n"
        "    getattr(django_stephooks, name)\n",
        DJANGO_SETTINGS_MODULE="tests.settings",
    )
    assert result.returncode == 0, result.stderr


def test_no_module_is_too_long_to_read() -> None:
    modules = {
        path.relative_to(ROOT): len(path.read_text().splitlines())
        for path in PACKAGE.rglob("*.py")
        if "migrations" not in path.parts
    }
    assert modules
    assert {path: lines for path, lines in modules.items() if lines > MAX_LINES} == {}


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(tmp_path: Path) -> None:
    result = run_python("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = tmp_path.glob("django_stephooks-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert "django_stephooks/py.typed" in names
    assert names == {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
