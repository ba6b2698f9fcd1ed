"""Exits 0 when an HTML file closes what it opens, has unique ids and holds only well-formed SVG."""
import re
import sys
import xml.etree.ElementTree
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Checker(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.problems = [], set(), []

    def note_id(self, attributes):
        for name, value in attributes:
            if name == "id":
                if value in self.ids:
                    self.problems.append(f"id {value} twice, line {self.getpos()[0]}")
                self.ids.add(value)

    def handle_starttag(self, tag, attributes):
        self.note_id(attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.note_id(attributes)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing, line {self.getpos()[0]}")


text = open(sys.argv[1], encoding="utf-8").read()
checker = Checker()
checker.feed(text)
checker.close()
problems = checker.problems + [f"<{tag}> stays open" for tag in checker.open]
drawings = re.findall(r"<svg.*?</svg>", text, re.S)
for drawing in drawings:
    try:
        xml.etree.ElementTree.fromstring(drawing)
    except xml.etree.ElementTree.ParseError as error:
        problems.append(f"SVG: {error}")
    for reference in re.findall(r"href='#([^']+)'", drawing):
        if reference not in checker.ids:
            problems.append(f"SVG: #{reference} does not exist")
for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
