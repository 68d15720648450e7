#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the training text: short fables drawn from a seeded grammar.

  generate_text.py --seed 1 --count 1000 > stories.txt     stories, separated by a line "<|>"
"""

import argparse
import sys

import grammar
import plots

SEPARATOR = "<|>"


def story(seed, index):
    """Returns the story with that index for that seed, one paragraph per line."""
    state = grammar.Story(grammar.story_random(seed, index))
    plot = state.pick(plots.ALL)
    return "\n".join(state.expand(paragraph) for paragraph in plot(state))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    args = parser.parse_args()
    for index in range(args.start, args.start + args.count):
        sys.stdout.write(story(args.seed, index) + "\n" + SEPARATOR + "\n")


if __name__ == "__main__":
    main()
