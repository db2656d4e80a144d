"""Reads what pages say: links, headings, commands and code, for the tests beside this file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


class Command(NamedTuple):
    """A command of this package as a page names it; `words` are those after its name."""

    name: str
    words: tuple[str, ...]


def text_of(page: Path) -> str:
    """Returns the text of a page, with commands that are continued on the next line in one."""
    return page.read_text(encoding="utf-8").replace("\\\n", " ")


def blocks(text: str, language: str) -> list[str]:
    """Returns the blocks of code in one language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def links(text: str) -> Iterator[tuple[str, str]]:
    """Yields path and anchor of each link that stays in the repository; either may be empty."""
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"\w+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def anchors(text: str) -> set[str]:
    """Returns the anchors of the headings of a page, as hosts of repositories make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_in(text: str) -> Iterator[Command]:
    """Yields the commands in blocks and in running text, with comments left out."""
    for name, rest in re.findall(r"(?:epg-tf |python -m launch\.)([a-z][\w-]*)([^`\n]*)", text):
        words = re.sub(r"\.\.\.| +#.*", "", rest)
        yield Command(name.replace("-", "_"), tuple(shlex.split(words)))


def steps(text: str) -> list[Command]:
    """Returns the commands in the blocks of a page, in their order."""
    return [command for block in blocks(text, "bash") for command in commands_in(block)]
