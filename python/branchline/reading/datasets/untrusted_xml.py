"""Parses XML from servers and users, without document type declarations, whose entities could exhaust memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn
from xml.etree import ElementTree
from xml.parsers import expat


def parse_xml(content: bytes) -> ElementTree.Element:
    """Return the root element of a document; namespaces precede the names of elements as ``NAMESPACE}``. Raises
    ValueError for invalid XML and for a document type declaration.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(content, True)
        return builder.close()
    except (expat.ExpatError, AssertionError, LookupError) as error:
        raise ValueError(f"invalid XML: {error}") from error


def _refuse(*_: object) -> NoReturn:
    raise ValueError("document type declarations are not allowed")


def elements(within: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of a document that have this name in any namespace, in order."""
    for element in within.iter():
        if element.tag.rpartition("}")[2] == name:
            yield element


def text_in(within: ElementTree.Element, name: str) -> str:
    """Return the text of the first element of this name; empty if there is none."""
    found = next(elements(within, name), None)
    return "" if found is None else (found.text or "").strip()
