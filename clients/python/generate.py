"""Writes what describes the API: `api.pyi`, its types, and `rest.py`, a method for each route. Hatch calls it at each build.

The types are made by datamodel-code-generator, as TypedDicts: a plain dict stays what it is, so that nothing is raised at a
code, a state or a member that is newer than this client. The methods follow from the operations of the document.
"""

import copy
import json
import keyword
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
CONTRACT = REPOSITORY / "openapi" / "trunkline.json"
PACKAGE = HERE / "src" / "trunkline"


class Generate(BuildHookInterface):  # type: ignore[type-arg]
    """The hook of hatch."""

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        # An sdist has the files, and nothing of the repository around it.
        if not (HERE / "PKG-INFO").exists():
            write()


def write() -> None:
    """Writes the files anew."""
    for name in ["LICENSE-MIT", "LICENSE-APACHE"]:
        shutil.copy(REPOSITORY / name, HERE / name)
    options = [
        "--input-file-type=openapi",
        "--output-model-type=typing.TypedDict",
        "--target-python-version=3.10",
        "--enum-field-as-literal=all",
        "--use-schema-description",
        "--use-field-description",
        "--disable-timestamp",
    ]
    document = json.loads(CONTRACT.read_text(encoding="utf-8"))
    command = [sys.executable, "-W", "ignore", "-m", "datamodel_code_generator"]
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trunkline.json"
        plain.write_text(json.dumps(without_words(document)), encoding="utf-8")
        subprocess.run([*command, f"--input={plain}", f"--output={PACKAGE / 'api.pyi'}", *options], check=True)
    (PACKAGE / "rest.py").write_text(HEAD + "".join(methods(document)), encoding="utf-8")


def without_words(document: Dict[str, Any]) -> Dict[str, Any]:
    """The document for the generator, which writes no valid Python where a type has a member named by a keyword and members with
    descriptions: those descriptions are left out."""
    document = copy.deepcopy(document)
    for schema in document["components"]["schemas"].values():
        members = schema.get("properties", {})
        if any(keyword.iskeyword(name) for name in members):
            for member in members.values():
                member.pop("description", None)
    return document


HEAD = '''"""Owns the routes: a method for each. Written by `generate.py` from the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from . import api
from .calls import Calls


class Rest(Calls):
    """Every route of the API. An answer that is no success is raised as a `TrunklineError`."""
'''


def methods(document: Dict[str, Any]) -> List[str]:
    return [
        method(path, verb, operation)
        for path, item in document["paths"].items()
        for verb, operation in item.items()
        if "responses" in operation and is_call(operation)
    ]


def is_call(operation: Dict[str, Any]) -> bool:
    """An upgrade, which has no success of its own, and an endless stream are no calls."""
    has_success = any(status.startswith("2") for status in operation["responses"])
    return has_success and "text/event-stream" not in list(contents(operation))[:1]


def method(path: str, verb: str, operation: Dict[str, Any]) -> str:
    parameters = operation.get("parameters", [])
    places = [it["name"] for it in parameters if it["in"] == "path"]
    queries = [it for it in parameters if it["in"] == "query"]
    arguments = ["self", *(f"{name}: str" for name in places)]
    body = operation.get("requestBody")
    if body:
        kind = annotation(body["content"]["application/json"]["schema"])
        arguments.append(f"body: {kind}" if body.get("required") else f"body: {optional(kind)} = None")
    if queries:
        arguments.append("*")
    for query in queries:
        kind = annotation(query["schema"])
        name = argument(query["name"])
        arguments.append(f"{name}: {kind}" if query.get("required") else f"{name}: {optional(kind)} = None")
    result = answer(operation)
    template = repr(re.sub(r"\{(\w+)\}", r"{self.quoted(\1)}", path))
    given = [verb.upper().join("''"), ("f" if places else "") + template]
    if body or queries:
        given.append("body" if body else "None")
    if queries:
        given.append("{%s}" % ", ".join(f"{it['name']!r}: {argument(it['name'])}" for it in queries))
    words = (operation.get("summary") or operation["operationId"]).strip()
    lines = [
        "",
        f"    async def {operation['operationId']}({', '.join(arguments)}) -> {result or 'None'}:",
        f'        """{words if words[-1] in ".?" else words + "."}"""',
        f"        {'return ' if result else ''}await self.call({', '.join(given)})",
        "",
    ]
    return "\n".join(lines)


def argument(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


def contents(operation: Dict[str, Any]) -> Dict[str, Any]:
    """The contents that a success may have, by media type."""
    success = (answer for status, answer in operation["responses"].items() if status.startswith("2"))
    return dict(next(success, {}).get("content", {}))


def answer(operation: Dict[str, Any]) -> Optional[str]:
    """The type of a success."""
    content = contents(operation)
    if not content:
        return None
    if "application/json" not in content:
        return "str"
    kind = annotation(content["application/json"]["schema"])
    # A form that is not JSON by default is chosen in the query.
    return kind if next(iter(content)) == "application/json" else f"{kind} | str"


def optional(kind: str) -> str:
    return kind if kind == "Any" or "None" in kind else f"{kind} | None"


def annotation(schema: Dict[str, Any]) -> str:
    """The type of a schema, as an annotation."""
    if "$ref" in schema:
        return "api." + schema["$ref"].rsplit("/", 1)[1]
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices:
        return " | ".join(dict.fromkeys(annotation(it) for it in choices))
    if len(schema.get("allOf", [])) == 1:
        return annotation(schema["allOf"][0])
    kinds = schema.get("type", "any")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "array" in kinds:
        return f"list[{annotation(schema.get('items', {}))}]"
    names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict[str, Any]"}
    return " | ".join(names.get(kind, "Any") for kind in kinds)


if __name__ == "__main__":
    write()
