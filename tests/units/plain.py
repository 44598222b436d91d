"""A second account of the rules of units, by sets of entries and scans over all of them."""


def matches(links):
    """Return for each entry the (caller, call id) that it answers."""
    unanswered = []
    answered = {}
    for ordinal in sorted(links):
        unanswered += [(ordinal, call_id) for call_id in sorted(set(links[ordinal].calls))]
        answered[ordinal] = []
        for call_id in sorted(set(links[ordinal].answers)):
            known = [made for made in unanswered if made[1] == call_id]
            if known:
                answered[ordinal].append(max(known))
                unanswered.remove(max(known))
    return answered


def open_calls(links):
    made = {(ordinal, call_id) for ordinal, link in links.items() for call_id in link.calls}
    return made - {pair for pairs in matches(links).values() for pair in pairs}


def says_nothing(link):
    return bool(link.answers) and not link.calls and not link.mixed


def speaks(link):
    """Return whether an entry ends the wait for the results of calls before it."""
    return bool(link.calls) or (link.role not in ("tool", "system") and not says_nothing(link))


class PlainUnits:
    """The rules of Units, decided by looking at everything each time."""

    def __init__(self):
        self.links = {}
        self.groups = []
        self.asking = None

    def group_of(self, ordinal):
        return next(group for group in self.groups if ordinal in group)

    def waiting(self):
        return {
            call_id
            for group in self.groups
            for _, call_id in open_calls({o: self.links[o] for o in group})
        }

    def partners(self, ordinal, link):
        partners = []
        calls = {
            pair for group in self.groups for pair in open_calls({o: self.links[o] for o in group})
        }
        for call_id in set(link.answers) - set(link.calls):
            callers = [caller for caller, made in calls if made == call_id and caller < ordinal]
            partners += [max(callers)] if callers else []
        for tie in link.served:
            partners += [
                other for other, its in self.links.items() if tie in its.served and other != ordinal
            ]
        return partners

    def place(self, ordinal, link, partners):
        self.links[ordinal] = link
        merged = {ordinal}.union(*(self.group_of(partner) for partner in partners))
        if any(ordinal in group for group in self.groups):
            merged |= self.group_of(ordinal)
        self.groups = [group for group in self.groups if not group & merged] + [merged]
        return merged

    def add(self, ordinal, link):
        partners = self.partners(ordinal, link)
        self.place(ordinal, link, partners)
        if speaks(link):
            self.asking = ordinal if link.calls else None

    def remove(self, ordinals):
        for ordinal in ordinals:
            self.group_of(ordinal).discard(ordinal)
            del self.links[ordinal]
        self.groups = [group for group in self.groups if group]
        if self.asking in ordinals:
            self.asking = None
