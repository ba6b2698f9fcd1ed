"""Python packages that a test needs and not every machine has. A test without them is skipped by name."""

import importlib.util
import os
import subprocess
import sys

SKIPPED = 77  # CTest's SKIP_RETURN_CODE


def require(test, *packages):
    """Goes on when this interpreter can import them. Else, where LONGWAVE_PIP names this test among others, in a venv in the
    build folder that pip has filled; else, and where pip finds no registry, ends as skipped."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return
    venv = os.path.join(os.environ["LONGWAVE_VENVS"], test)
    python = os.path.join(venv, "bin", "python")
    if test not in os.environ.get("LONGWAVE_PIP", "").split():
        skip(missing, f"LONGWAVE_PIP={test} installs them into the build folder")
    if os.path.realpath(sys.prefix) == os.path.realpath(venv):
        skip(missing, f"{venv} lacks them; remove it")
    done = os.path.join(venv, "installed")
    if not os.path.exists(done):
        pip = [python, "-m", "pip", "install", "--quiet", "--retries", "1", "--timeout", "15"]
        for command in ([sys.executable, "-m", "venv", "--clear", venv], [*pip, *packages]):
            if subprocess.run(command).returncode != 0:
                skip(missing, f"{' '.join(command)} failed")
        open(done, "w").close()
    os.execv(python, [python, "-B", *sys.argv])


def skip(missing, reason):
    print(f"skipped: no {', '.join(missing)}; {reason}")
    sys.exit(SKIPPED)
