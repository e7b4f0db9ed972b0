#!/usr/bin/env python3
"""tools/wrap_comments.py [--check] FILE...: comments of C++ files end at column 100.

clang-format leaves comments alone, because it would run pictures, tables and the labels of a
header's contract together. Here a line that is too long is broken at a word and flows into the next
line of its paragraph; every other line stays as it is. A comment behind code moves onto a line of
its own. What cannot be broken (a picture, a long word) is named, and the exit status is 1. --check
changes nothing. tools/format.sh runs it; tests/house/format_test.cc shows what it does.
"""
import re
import sys

WIDTH = 100
MARK = re.compile(r"^(\s*)(///?<?|/\*| \*|\*)( *)(.*)$")
LABEL = re.compile(r"[A-Z][a-z]+( [a-z]+){0,2}: |\d+: |- |@|TODO")
NUMBERED = re.compile(r"(^|\s)\d+: ")
DRAWN = re.compile(r"\S\s{2,}\S.*\S\s{2,}\S|-->|<--|\+--|\s\|")
CELL = re.compile(r"\S.*?\s{2,}(?=\S)")
ITEM = re.compile(r"\d+: |- ")


class Line:
    """One line of a comment. mark: the indentation and `///`; indent: the spaces behind it."""

    def __init__(self, line):
        lead, mark, space, self.text = MARK.match(line).groups()
        self.mark = lead + mark
        self.indent = len(space)
        self.length = len(line)  # as it was written
        self.listed = False  # an item of a list: what follows is another one
        self.drawn = bool(DRAWN.search(self.text))
        cell, item = CELL.match(self.text), ITEM.match(self.text)
        self.starts = self.drawn or bool(cell or LABEL.match(self.text))
        self.hang = self.indent + len((cell or item or [""])[0])

    def __str__(self):
        return (self.mark + " " * self.indent + self.text).rstrip()

    def cut(self):
        """Keeps what fits and returns the rest as a line; None when there is no word to cut at."""
        at = self.text.rfind(" ", 0, WIDTH - len(self.mark) - self.indent + 1)
        if self.text[at:] == " */":
            at = self.text.rfind(" ", 0, at)
        if at <= 0:
            return None
        indent = self.hang if self.hang > self.indent else self.indent + 2 * self.listed
        rest = Line(self.mark.replace("/*", " *") + " " * indent + self.text[at:].strip())
        rest.starts = rest.drawn = False
        rest.hang, rest.length, rest.listed = indent, self.length, self.listed
        self.text = self.text[:at].rstrip()
        return rest


def follows(line, after):
    """Whether `line` goes on with the paragraph of `after`: not behind a picture, an item or a
    colon, and not behind a line so short that its end was meant."""
    deeper = line.indent > after.indent
    if after.drawn or (after.listed and not deeper) or (after.text.endswith(":") and deeper):
        return False
    return (line.text and not line.starts and line.indent >= after.indent
            and line.mark.replace("/*", " *") == after.mark.replace("/*", " *")
            and after.length + 1 + len(line.text.split()[0]) > WIDTH)


def mark_lists(lines):
    """Indented lines are the items of a list, one a line, unless they are numbered or a label
    stands above them."""
    above, run = None, []
    for line in [*lines, None]:
        if line and line.text and line.indent > 1:
            run.append(line)
            continue
        labelled = above and LABEL.match(above.text)
        if not labelled and not any(NUMBERED.search(item.text) for item in run):
            for item in run:
                item.listed = item.indent == run[0].indent
        above, run = line, []


def wrap(block, unbroken):
    """The lines of one comment, none past WIDTH but those that `unbroken` then names."""
    out, rest = [], None
    queue = [Line(line) for line in block]
    mark_lists(queue)
    while queue or rest:
        line = rest or queue.pop(0)
        if rest and queue and follows(queue[0], rest):
            line.text += " " + queue[0].text
            line.indent, line.length = queue[0].indent, queue[0].length
            queue.pop(0)
        rest = None
        if len(str(line)) > WIDTH and not line.drawn:
            flows = queue and not line.listed and follows(queue[0], line)
            rest = line.cut()
            if rest and flows:
                rest.indent = rest.hang = queue[0].indent
        if len(str(line)) > WIDTH:
            unbroken.append(str(line))
        out.append(str(line))
    return out


def comment_column(line):
    """Where a `//` outside of strings begins, or -1."""
    quote, at = "", 0
    while at < len(line):
        if quote:
            if line[at] == "\\":
                at += 1
            elif line[at] == quote:
                quote = ""
        elif line[at] == '"' or (line[at] == "'" and not line[at - 1:at].isalnum()):
            quote = line[at]
        elif line.startswith("//", at):
            return at
        at += 1
    return -1


def move_up(lines):
    """A comment behind code that ends past WIDTH moves in front of the code, or into the block
    that the code opens."""
    out, at = [], 0
    while at < len(lines):
        line = lines[at]
        at += 1
        column = comment_column(line)
        if len(line) <= WIDTH or column < 0 or not line[:column].strip():
            out.append(line)
            continue
        code = line[:column].rstrip()
        mark, text = re.match(r"(///?)<? ?(.*)", line[column:]).groups()
        while at < len(lines) and comment_column(lines[at]) == column == len(lines[at]) - len(
                lines[at].lstrip()):
            text += " " + lines[at].strip().lstrip("/<").strip()
            at += 1
        opens = code.endswith("{")
        comment = " " * (len(code) - len(code.lstrip()) + 2 * opens) + mark + " " + text
        out += [code, comment] if opens else [comment, code]
    return out


def wrap_comments(lines, unbroken):
    out, block, in_c = [], [], False
    for line in [*move_up(lines), None]:
        text = (line or "").strip()
        in_c = in_c or text.startswith("/*")
        if line is not None and (text.startswith("//") or (in_c and MARK.match(line))):
            block.append(line)
        else:
            out += wrap(block, unbroken) if any(len(entry) > WIDTH for entry in block) else block
            block = []
            out += [] if line is None else [line]
        in_c = in_c and "*/" not in text
    return out


def raw_strings(text):
    """The numbers (from 0) of lines that a raw string covers: they are bytes, not layout."""
    covered = set()
    for match in re.finditer(r'R"(\w*)\((?:.|\n)*?\)\1"', text):
        first = text.count("\n", 0, match.start())
        covered.update(range(first, first + match[0].count("\n") + 1))
    return covered


def formatted(text):
    """(text with its comments within WIDTH, the lines that could not be broken)"""
    out, chunk, unbroken = [], [], []
    covered = raw_strings(text)
    for number, line in enumerate(text.split("\n")):
        if number in covered:
            out += [*wrap_comments(chunk, unbroken), line]
            chunk = []
        else:
            chunk.append(line)
    return "\n".join(out + wrap_comments(chunk, unbroken)), unbroken


def main(arguments):
    check = arguments[:1] == ["--check"]
    status = 0
    for path in arguments[1:] if check else arguments:
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after, unbroken = formatted(before)
        for line in unbroken:
            print(f"{path}: past column {WIDTH} and cannot be broken: {line}", file=sys.stderr)
        if check and after != before:
            print(f"{path}: a comment past column {WIDTH}: tools/format.sh", file=sys.stderr)
        if unbroken or (check and after != before):
            status = 1
        if after != before and not check:
            with open(path, "w", encoding="utf-8") as file:
                file.write(after)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
