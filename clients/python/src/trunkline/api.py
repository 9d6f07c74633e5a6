"""The types of the API, for annotations: `api.Session`, `api.Approval`, … At run time each is a plain dict.

They are declared in `api.pyi`, which `generate.py` writes from the OpenAPI document.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return dict
