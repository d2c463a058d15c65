"""A person at a browser, as far as the check needs one: cookies, links, forms and buttons.

Nothing here knows the site's URLs: it follows what the pages say.
"""

from __future__ import annotations

import http.cookiejar
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser

TIMEOUT = 20.0


class PageError(Exception):
    """The site answered with an error, or the page lacks what a person would look for."""


@dataclass(kw_only=True)
class Button:
    name: str = ""
    value: str = ""
    action: str = ""
    text: str = ""


@dataclass(kw_only=True)
class Form:
    action: str = ""
    method: str = "get"
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[Button] = field(default_factory=list)


class Page(HTMLParser):
    """A parsed page: its links (address and text), forms, and text."""

    def __init__(self, url: str, source: str) -> None:
        super().__init__()
        self.url = url
        self.links: list[tuple[str, str]] = []
        self.forms: list[Form] = []
        self.text = ""
        self._by_id: dict[str, Form] = {}
        self._form: Form | None = None
        self._link: str | None = None
        self._link_text = ""
        self._button: Button | None = None
        self._select = ""
        self._textarea: tuple[Form, str] | None = None
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "a":
            self._link, self._link_text = found.get("href", ""), ""
        elif tag == "form":
            self._form = Form(action=found.get("action", ""), method=found.get("method", "get"))
            self.forms.append(self._form)
            self._by_id[found.get("id", "")] = self._form
        # A control may stand outside its form and name it.
        form = self._by_id.get(found.get("form", ""), self._form) if "form" in found else self._form
        if form is not None:
            self._control(form, tag, found)

    def _control(self, form: Form, tag: str, found: dict[str, str]) -> None:
        name, value = found.get("name", ""), found.get("value", "")
        kind = found.get("type", "submit" if tag == "button" else "text")
        if tag in {"button", "input"} and kind == "submit":
            button = Button(name=name, value=value, action=found.get("formaction", ""))
            form.buttons.append(button)
            self._button = button if tag == "button" else None
        elif tag == "input" and (kind not in {"checkbox", "radio"} or "checked" in found):
            form.fields[name] = value
        elif tag == "textarea":
            form.fields[name] = ""
            self._textarea = (form, name)
        elif tag == "select":
            self._select = name
        elif tag == "option" and ("selected" in found or self._select not in form.fields):
            form.fields[self._select] = value

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._link is not None:
            self.links.append((self._link, " ".join(self._link_text.split())))
            self._link = None
        elif tag == "form":
            self._form = None
        elif tag == "button":
            self._button = None
        elif tag == "textarea":
            self._textarea = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._link is not None:
            self._link_text += data
        if self._button is not None:
            self._button.text += data
        if self._textarea is not None:
            form, name = self._textarea
            # A newline right after the tag belongs to the markup.
            form.fields[name] += data if form.fields[name] else data.removeprefix("\n")

    def link(self, text: str) -> str:
        """The address behind the first link that says this, among other words."""
        for address, words in self.links:
            if text in words:
                return urllib.parse.urljoin(self.url, address)
        raise PageError(f"No link on {self.url} says {text!r}.")


class Browser:
    """Somebody's browser. It starts at the site's address and keeps its cookies."""

    def __init__(self, site: str) -> None:
        self.page = Page(site, "")
        self._opener = urllib.request.build_opener(
            # Loopback only, whatever proxy the machine uses for the rest.
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
        )

    def open(self, address: str, data: dict[str, str] | None = None) -> Page:
        """Get an address relative to the present page; or post to it."""
        url = urllib.parse.urljoin(self.page.url, address)
        body = None if data is None else urllib.parse.urlencode(data).encode()
        try:
            with self._opener.open(url, body, TIMEOUT) as answer:
                self.page = Page(answer.url, answer.read().decode())
        except urllib.error.HTTPError as error:
            said = " ".join(Page(url, error.read().decode(errors="replace")).text.split())
            raise PageError(f"{url} answered {error.code}: {said[:300]}") from None
        return self.page

    def follow(self, text: str) -> Page:
        """Click the link that says this."""
        return self.open(self.page.link(text))

    def fill(self, *, press: tuple[str, str] | None = None, **answers: str) -> Page:
        """Fill in the form that asks for all of this, and press its button of that name and value.

        Fields not mentioned, hidden ones too, are sent as the page has them.
        """
        for form in self.page.forms:
            for button in form.buttons or [Button()]:
                wanted = press is None or press == (button.name, button.value)
                if wanted and answers.keys() <= form.fields.keys():
                    data = {**form.fields, **answers}
                    if button.name:
                        data[button.name] = button.value
                    return self.open(button.action or form.action, data)
        raise PageError(f"No form on {self.page.url} asks for {sorted(answers)} with {press}.")

    def log_in(self, name: str) -> Page:
        """Log in on a login page; in the demo everyone's password is their name."""
        return self.fill(username=name, password=name)
