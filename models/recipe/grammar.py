# SPDX-License-Identifier: Apache-2.0
"""The story grammar: word lists, a small template language, and the cast of a story.

Template language, expanded inside out until nothing is left to expand:
  {a|b|c}   one of the alternatives, evenly; an alternative may be empty
  [slot]    a value of the story: [obj], [place.at], [A] (a name), [A.he], [A.The], ...
Every choice is drawn from the story's own random generator, so a seed fixes the text.
"""

import random
import re

# name -> "f" or "m": fixed, so that the model can learn pronouns from the name.
HUMANS = {
    "Mia": "f", "Nora": "f", "Ella": "f", "Ida": "f", "Rosa": "f", "Tilly": "f", "June": "f",
    "Clara": "f", "Anna": "f", "Hazel": "f", "Tom": "m", "Ben": "m", "Oscar": "m", "Finn": "m",
    "Jack": "m", "Hugo": "m", "Sam": "m", "Leo": "m", "Emil": "m", "Peter": "m",
}
BEASTS = {
    "Pip": "m", "Bramble": "m", "Clover": "f", "Moss": "m", "Biscuit": "m", "Pepper": "f",
    "Nutmeg": "f", "Dusty": "m", "Willow": "f", "Button": "m", "Fern": "f", "Rusty": "m",
    "Poppy": "f", "Acorn": "m", "Maple": "f", "Pebble": "f",
}
SPECIES = ["fox", "rabbit", "bear", "mouse", "squirrel", "hedgehog", "frog", "duck", "goat", "cat",
           "dog", "badger", "otter", "donkey", "turtle", "lamb"]
ELDERS = [("the baker", "f"), ("the miller", "m"), ("the old fisherman", "m"), ("the weaver", "f"),
          ("the blacksmith", "m"), ("the teacher", "f"), ("the shepherd", "m"),
          ("the gardener", "f"), ("the carpenter", "m"), ("the old sailor", "m")]

COLORS = ["red", "blue", "green", "yellow", "white", "silver", "brown", "golden"]
TREASURES = ["kite", "drum", "scarf", "hat", "bell", "key", "ball", "whistle", "basket", "blanket",
             "toy boat", "wooden horse", "music box", "lantern", "coat", "book"]
# what breaks, and how it is repaired
FRAGILE = [("cup", "glue"), ("vase", "glue"), ("plate", "glue"), ("clock", "a tiny screw"),
           ("lamp", "new glass"), ("chair", "nails and a hammer"), ("kite", "paper and string"),
           ("basket", "fresh straw"), ("window", "new glass")]
FOODS = ["bread", "soup", "apple pie", "cheese", "honey cake", "pancakes", "berries", "nuts",
         "plum jam", "pears"]
# (place, preposition phrase used after "looked")
PLACES = [("the forest", "in the forest"), ("the river", "by the river"),
          ("the meadow", "in the meadow"), ("the old mill", "behind the old mill"),
          ("the market", "at the market"), ("the barn", "in the barn"),
          ("the pond", "beside the pond"), ("the bridge", "under the bridge"),
          ("the garden", "in the garden"), ("the well", "near the well"),
          ("the harbour", "at the harbour"), ("the oak tree", "under the oak tree"),
          ("the stone wall", "behind the stone wall"), ("the hill", "on top of the hill")]
HOMES = ["a small village by the sea", "a quiet village between two hills", "a little wooden house",
         "a cottage at the edge of the forest", "a warm house near the river",
         "a farm at the end of a long road", "a town with narrow streets",
         "a valley full of flowers"]
DENS = ["a cosy burrow under an oak tree", "a hollow log near the river",
        "a little den at the edge of the forest", "a warm nest of dry grass",
        "a small cave behind the waterfall", "a green valley full of flowers"]
DAYS = ["One morning", "One day", "One afternoon", "One sunny morning", "One cold morning",
        "One windy day", "One summer day", "One autumn day", "Early one morning"]

CHOICE = re.compile(r"\{([^{}]*)\}")
SLOT = re.compile(r"\[([^\[\]{}|]+)\]")


class Character:
    """A character of a story and the words that refer to it."""

    def __init__(self, name, sex, kind, young=True):
        self.name = name
        self.sex = sex
        self.kind = kind  # "girl", "boy", a species, or None for elders ("the baker")
        self.young = young

    def words(self, key):
        female = self.sex == "f"
        he = "she" if female else "he"
        him = "her" if female else "him"
        his = "her" if female else "his"
        the = "the " + self.kind if self.kind else self.name
        table = {
            "": self.name, "he": he, "He": he.capitalize(), "him": him, "his": his,
            "His": his.capitalize(), "self": him + "self", "kind": self.kind or "",
            "the": the, "The": the[0].upper() + the[1:],
            "Name": self.name[0].upper() + self.name[1:],
            # "Pip the fox", occasionally; "June the girl" would sound odd
            "label": "" if self.kind in ("girl", "boy", None) else "{the %s |}" % self.kind,
        }
        return table[key]


class Story:
    """State of one story while it is written: random generator, cast and slots."""

    def __init__(self, rng):
        self.rng = rng
        self.slots = {}
        self.used = set()
        self.world = rng.choice(["people", "beasts", "mixed"])

    def pick(self, values):
        return self.rng.choice(values)

    def pick_several(self, values, count):
        return self.rng.sample(values, count)

    def person(self, slot):
        names = sorted(set(HUMANS) - self.used)
        name = self.pick(names)
        sex = HUMANS[name]
        return self._cast(slot, Character(name, sex, "girl" if sex == "f" else "boy"))

    def beast(self, slot, species=None):
        names = sorted(set(BEASTS) - self.used)
        name = self.pick(names)
        kinds = [s for s in SPECIES if s not in self.used]
        kind = species or self.pick(kinds)
        self.used.add(kind)
        return self._cast(slot, Character(name, BEASTS[name], kind))

    def hero(self, slot):
        return self.beast(slot) if self.world == "beasts" else self.person(slot)

    def friend(self, slot):
        return self.person(slot) if self.world == "people" else self.beast(slot)

    def elder(self, slot):
        kin = ("grandmother", "f") if self.rng.random() < 0.5 else ("grandfather", "m")
        options = ELDERS if self.world != "beasts" else [("the old owl", "f"), ("the old toad", "m"),
                                                          ("the grey goose", "f"),
                                                          ("the old raven", "m")]
        name, sex = self.pick(options + [kin] * 3)
        if name in ("grandmother", "grandfather"):
            name = "Grandmother" if sex == "f" else "Grandfather"
        return self._cast(slot, Character(name, sex, None, young=False))

    def _cast(self, slot, character):
        self.used.add(character.name)
        self.slots[slot] = character
        return character

    def set(self, **values):
        self.slots.update(values)

    def _slot(self, match):
        name, _, key = match.group(1).partition(".")
        value = self.slots[name]
        if isinstance(value, Character):
            return value.words(key)
        if isinstance(value, tuple):
            return value[{"": 0, "at": 1}[key]]
        return value

    def expand(self, text):
        while True:
            new = CHOICE.sub(lambda m: self.pick(m.group(1).split("|")), text)
            new = SLOT.sub(self._slot, new)
            if new == text:
                break
            text = new
        text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
        text = re.sub(r" +", " ", text).strip()
        return re.sub(r" ([.,!?])", r"\1", text)


def story_random(seed, index):
    """One generator per story, so that any story can be reproduced alone."""
    return random.Random(seed * 1_000_003 + index)
