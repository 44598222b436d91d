"""`import kaosmem` brings no adapter and no framework."""

import subprocess
import sys

FRAMEWORKS = "agents agent_framework google.adk haystack langchain litellm llama_index smolagents"


def test_kaosmem_imports_no_adapter() -> None:
    """Neither `kaosmem` nor the packages of its users load an adapter."""
    code = (
        "import sys, kaosmem, kaosmem.testing, kaosmem.stores\n"
        "print([name for name in sys.modules if name.startswith('kaosmem.integrations')"
        f" or name in {FRAMEWORKS.split()}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
