"""Names with letters that run from right to left, or with marks that reorder letters, change nothing beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from branchline.control.web import rendering
from branchline.control.web.rendering import Isolation, rendered

HEBREW = "\u05d0\u05d1\u05d2"
MARK = "\u202e"
NAME = f"{HEBREW}{MARK}<b>"


class Texts(HTMLParser):
    """The texts of a page, each with the elements around it, and the values of its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.around: list[str] = []
        self.texts: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.values += [value or "" for _, value in attrs]
        if tag not in ("meta", "link", "input", "br", "img", "path"):
            self.around.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.around:
            while self.around.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.texts.append((data, tuple(self.around)))


def page_of(source: str, **values: object) -> Texts:
    found = Texts()
    text = rendering._environment().from_string(source).render(values)
    found.feed(text)
    assert MARK not in text
    return found


def test_a_name_in_a_text_is_isolated_and_escaped() -> None:
    page = page_of('<p class="{{ name }}">by {{ name }} and {{ other }}</p>', name=NAME, other="a<b")
    isolated = [(text, around) for text, around in page.texts if HEBREW in text]
    assert isolated == [(f"{HEBREW}\N{REPLACEMENT CHARACTER}<b>", ("p", "bdi"))]
    assert ("".join(text for text, _ in page.texts)).endswith("and a<b")
    assert page.values == [f"{HEBREW}\N{REPLACEMENT CHARACTER}<b>"]


@pytest.mark.parametrize(
    "source",
    [
        "<title>{{ name }}</title>",
        "<select><option>{{ name }}</option></select>",
        "<textarea>{{ name }}</textarea>",
        '<svg><text x="1">{{ name }}</text></svg>',
        '<a {% if name %}title="{{ name }}"{% endif %} href="/{{ name|path }}">x</a>',
    ],
)
def test_no_element_stands_where_none_may(source: str) -> None:
    page = page_of(source, name=NAME)
    assert all("bdi" not in around for _, around in page.texts)


def test_expressions_stay_what_they_are() -> None:
    source = "{% macro one(x) %}<b>{{ x }}</b>{% endmacro %}<p>{{ one(name) }}{{- ' ' ~ number|count -}}"
    source += "{{ 'a' if no else name }}"
    page = page_of(source, name=HEBREW, number=1234, no=False)
    assert [around for text, around in page.texts if HEBREW in text] == [("p", "b", "bdi"), ("p", "bdi")]
    assert any("234" in text for text, _ in page.texts)


def values_in_texts(source: str) -> Iterator[str]:
    """The expressions of a template that stand between tags, found by leaving out what stands in them."""
    for one in ("title", "option", "textarea", "script", "style", "svg"):
        source = re.sub(rf"<{one}\b.*?</{one}>", "", source, flags=re.DOTALL)
    without_blocks = re.sub(r"\{%.*?%\}|\{#.*?#\}", "", source, flags=re.DOTALL)
    without_tags = re.sub(r"<[a-zA-Z/!](?:\{\{.*?\}\}|[^>])*>", "", without_blocks, flags=re.DOTALL)
    yield from re.findall(r"\{\{.*?\}\}", without_tags, flags=re.DOTALL)


@pytest.mark.parametrize("name", rendering._environment().list_templates())
def test_every_text_of_a_template_is_isolated(name: str) -> None:
    environment = rendering._environment()
    assert environment.loader is not None
    source, _, _ = environment.loader.get_source(environment, name)
    wanted = list(values_in_texts(source))
    made = list(values_in_texts(Isolation(environment).preprocess(source, name)))
    assert len(made) == len(wanted)
    assert all("|isolated" in one for one in made), made


def test_a_page_with_such_names_shows_them_isolated() -> None:
    values = {"title": f"There is no wagon {NAME}", "page": NAME, "places": [("/jobs", NAME)], "here": "/jobs"}
    text = rendered("error.html", **values, who=SimpleNamespace(name=NAME), twin="/x")
    page = Texts()
    page.feed(text)
    assert MARK not in text
    shown = [around for one, around in page.texts if HEBREW in one]
    assert [around[-1] for around in shown] == ["title", "bdi", "bdi", "bdi", "bdi"]
