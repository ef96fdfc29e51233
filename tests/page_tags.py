"""The tags of a page, for tests of what it holds."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """Collects tags, whether they are balanced, and addresses that leave the page."""

    VOID = frozenset({"meta", "br", "link", "img", "path", "use", "rect"})

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.outside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in {"src", "href", "xlink:href"} and not value.startswith("#"):
                self.outside.append(value)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag
