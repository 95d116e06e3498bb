"""Rows of paper beside ours, as Markdown."""

CALIBRATED = "calibrated"  # a parameter of the chip was chosen by this figure
PREDICTED = "predicted"
DEPENDENT = "follows"  # from other rows: not counted
LIMIT = 0.15


class Row:
    """what: its name; paper, ours: figures, or (low, high); derived: the paper
    does not state it, but it follows from what it states."""

    def __init__(self, what, paper, ours, unit="", use=PREDICTED,
                 derived=False, cause=""):
        self.what, self.paper, self.ours = what, paper, ours
        self.unit, self.use = unit, use
        self.derived, self.cause = derived, cause

    @property
    def ratio(self):
        """Ours over the paper's; None if they are ranges."""
        if isinstance(self.paper, tuple):
            return None
        return self.ours / self.paper

    @property
    def is_near(self):
        """Within the limit; of a range: ours lies in it."""
        if self.ratio is None:
            return self.paper[0] <= self.ours[0] and \
                self.ours[1] <= self.paper[1]
        return abs(self.ratio - 1) <= LIMIT


def number(x):
    if isinstance(x, tuple):
        low, high = (number(one) for one in x)
        return low if low == high else "%s to %s" % (low, high)
    digits = 0 if not x or abs(x) >= 1000 else 1 if abs(x) >= 100 else \
        2 if abs(x) >= 1 else 3
    return "{:,.{}f}".format(x, digits)


def table(header, rows, align):
    out = ["| %s |" % " | ".join(header),
           "|%s|" % "|".join({"l": "---", "r": "---:"}[a] for a in align)]
    out += ["| %s |" % " | ".join(row) for row in rows]
    return "\n".join(out) + "\n"


class Notes:
    """Causes of what is off, numbered as they come."""

    def __init__(self):
        self.texts = []

    def mark(self, row):
        if row.is_near or not row.cause:
            return "" if row.is_near else " off"
        if row.cause not in self.texts:
            self.texts.append(row.cause)
        return " off [%d]" % (self.texts.index(row.cause) + 1)

    def text(self):
        return "".join("%d. %s\n" % (i + 1, text)
                       for i, text in enumerate(self.texts))


def figures(rows, notes):
    """A table of rows."""
    cells = []
    for row in rows:
        unit = " " + row.unit if row.unit else ""
        ratio = "" if row.ratio is None else "%.2f" % row.ratio
        cells.append([row.what,
                      number(row.paper) + unit + (" *" if row.derived else ""),
                      number(row.ours) + unit, ratio,
                      row.use + notes.mark(row)])
    return table(["", "paper", "here", "here / paper", "figure is"], cells,
                 "lrrrl")


def count(rows):
    """(predictions within the limit, predictions)"""
    mine = [row for row in rows if row.use == PREDICTED]
    return sum(row.is_near for row in mine), len(mine)


def section(title, intro, rows, notes):
    """A table of rows, with the causes that it adds to the notes."""
    before = len(notes.texts)
    text = "## %s\n\n%s\n%s" % (title, intro, figures(rows, notes))
    new = notes.texts[before:]
    if new:
        text += "\n" + "\n".join(
            "[%d] %s" % (before + i + 1, cause)
            for i, cause in enumerate(new)) + "\n"
    return text


def compare(measure, make):
    """Prints what measure() has of two labs that know nothing of each other;
    1 if that differs."""
    first, second = measure(make()), measure(make())
    for name, ns in first.items():
        print("%-18s %12d ns%s" % (name, ns, "" if second[name] == ns else
                                   ", then %d" % second[name]))
    return int(first != second)
