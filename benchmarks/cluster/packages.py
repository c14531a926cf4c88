"""Programs that are not Python: those of Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(sys.prefix, "debian")  # of packages that are unpacked, and not installed


def need(**programs: str) -> None:
    """Install the packages whose program or file is missing, as root; otherwise say how.

    None of them may contain a service: Debian starts services when they are installed.
    """
    missing = [
        package.replace("_", "-")
        for package, program in programs.items()
        if not (shutil.which(program) or Path(program).exists())
    ]
    if not missing:
        return
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise SystemExit(f"Install the missing packages first: {' '.join(command)}")
    print(f"installing {', '.join(missing)} …", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    update()
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def unpacked(package: str, program: str) -> Path:
    """Return a program of a package with services; the package is unpacked in a folder, and not installed."""
    if path := shutil.which(program):
        return Path(path)
    folder = FOLDER / package
    found = folder / "usr/bin" / program
    if found.exists():
        return found
    if not shutil.which("apt-get"):
        raise SystemExit(f"{program} is missing. Install it, so that it is in PATH; Debian's package is {package}.")
    print(f"unpacking {package} …", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        update()
    # As root, apt would warn that its user _apt cannot write here.
    download = ["apt-get", "download", "--quiet", "--option", "APT::Sandbox::User=root", package]
    subprocess.run(download, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    [archive] = folder.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)
    archive.unlink()
    return found


def update() -> None:
    subprocess.run(["apt-get", "update", "--quiet", "--quiet"], check=True, stdout=subprocess.DEVNULL)
