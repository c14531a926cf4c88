"""The benchmarks: `python -m benchmarks` lists them, `python -m benchmarks NAME …` runs one."""

from __future__ import annotations

import ast
import importlib
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PACKAGES = ["cluster", "compare", "soak"]


def benchmarks() -> dict[str, str]:
    """Return the first line of each benchmark by name."""
    found = {name: summary(FOLDER / name / "__init__.py") for name in PACKAGES}
    for path in sorted(FOLDER.glob("*.py")):
        if "__main__" in path.read_text() and path.stem not in ("__main__", "manage", "runworker"):
            found[path.stem] = summary(path)
    return found


def summary(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).split(": ")[0].split("; ")[0].rstrip(".:")


def main() -> int:
    known = benchmarks()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in PACKAGES:
        return int(importlib.import_module(f"benchmarks.{name}.command").main(sys.argv[2:]))
    if name in known:
        sys.argv = [f"python -m benchmarks {name}", *sys.argv[2:]]
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
        return 0
    if name and name not in ("-h", "--help"):
        print(f"Unknown benchmark '{name}'.", file=sys.stderr)
    print("python -m benchmarks NAME [--help]\n")
    for known_name, text in known.items():
        print(f"  {known_name:<12} {text}")
    return 2 if name and name not in ("-h", "--help") else 0


if __name__ == "__main__":
    sys.exit(main())
