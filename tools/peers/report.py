"""What compare.py prints and draws of its results."""
import re
import statistics
from xml.sax.saxutils import escape

from support import BACKENDS, spread

# Goals by what a test is called: of llmc's rate over that of llama.cpp's best quantization, or of the share of the machine's limit.
RATIO_GOALS = [(r"pp\d+", 2.3), (r"tg\d+", 1.6), (r"tg\d+@\d{4,}", 5.0), (r"start", 2.0)]
RATIO_GOALS_INT8 = [(r"tg\d+@\d{4,}", 4.0)]  # both caches with 8 bits
LIMIT_GOALS = [(r"pp(51[2-9]|5[2-9]\d|[6-9]\d\d|\d{4,})", 0.75), (r"tg\d+", 0.88), (r"tg\d+x\d+", 0.7)]


def goal_of(goals: list, test: str) -> float | None:
    return next((goal for pattern, goal in goals if re.fullmatch(pattern, test)), None)


def ratio_goal(result: dict, test: str) -> float | None:
    return goal_of((RATIO_GOALS_INT8 if result["kv"] == "int8" else []) + RATIO_GOALS, test)


def ratios(result: dict, threads: int, test: str, target: str, peers: list) -> list:
    """llmc's target over the best of the peers [(quant, backend)], by round."""
    return [r[f"{threads}/llmc/{target}/{test}"] / max(r[f"{threads}/{quant}/{backend}/{test}"] for quant, backend in peers)
            for r in result["rounds"]]


def best(result: dict, target: str) -> list:
    return [(quant, BACKENDS[target]) for quant in result["quants"]]


def shares(result: dict, threads: int, test: str, target: str) -> list:
    """llmc's rate as a part of the limit that bounds it: the one that is nearer."""
    limits = [result["limits"].get(f"{target}/{test}/{threads}/{key}", []) for key in ("ratio_to_read_bandwidth", "ratio_to_peak")]
    return max(limits, key=lambda values: statistics.median(values) if values else 0)


def verdict(values: list, goal: float | None) -> str:
    if goal is None:
        return ""
    return "met" if statistics.median(values) >= goal else "missed"


def header(*titles: str) -> list:
    return ["| " + " | ".join(titles) + " |", "|---:|---|" + "---:|" * (len(titles) - 2)]


def summary(result: dict) -> list:
    """Every figure beside its goal: rows (threads, target, what, values, goal)."""
    rows = []
    for test in result["tests"]:
        for target in result["targets"]:
            for threads in result["threads"]:
                values = ratios(result, threads, test, target, best(result, target))
                rows.append((threads, target, f"{test} : llama.cpp's best", values, ratio_goal(result, test)))
                share = shares(result, threads, test, target)
                if share:
                    rows.append((threads, target, f"{test} : limit", share, goal_of(LIMIT_GOALS, test)))
    return rows


def rate_text(test: str, rate: float) -> str:
    return f"{1e3 / rate:.0f} ms" if test == "start" else f"{rate:.1f}"


def model_tables(result: dict) -> str:
    targets, tests = result["targets"], result["tests"]
    low, middle, high = result["load"]
    text = [f"### {result['model']}", "",
            f"Median of {len(result['rounds'])} rounds (least–greatest), cache {result['kv']}; load {low:.1f} to {high:.1f}, median {middle:.1f}. "
            "\"limit\": the read bandwidth of as many threads, or the peak of the products' instructions, measured in llmc's own runs; "
            "of the two the nearer one. \"start\": from the start of the process to the first token.", "",
            "| threads | target | llmc : | ratio | goal | |", "|---:|---|---|---:|---:|---|"]
    for threads, target, what, values, goal in summary(result):
        text.append(f"| {threads} | {target} | {what} | {spread(values)} | {goal or ''} | {verdict(values, goal)} |")
    rows = []
    for target in targets:
        backend = BACKENDS[target]
        rows.append((f"{target} : best with {backend}", target, best(result, target)))
        if "Q4_1" in result["quants"]:
            rows.append((f"{target} : Q4_1 with {backend}", target, [("Q4_1", backend)]))
    if len(targets) > 1:
        everything = [(q, BACKENDS[t]) for q in result["quants"] for t in targets]
        rows.append((f"{targets[-1]} : best of all", targets[-1], everything))
    text += ["", "llmc over llama.cpp:", "", *header("threads", "", *tests)]
    for threads in result["threads"]:
        for title, target, peers in rows:
            cells = [spread(ratios(result, threads, test, target, peers)) for test in tests]
            text.append(f"| {threads} | {title} | " + " | ".join(cells) + " |")
    text += ["", "Tokens/s of all sequences together, medians of the rounds:", "", *header("threads", "", *tests)]
    for threads in result["threads"]:
        for target in targets:
            for kind, what in [("llmc", target)] + best(result, target):
                cells = [rate_text(test, statistics.median(r[f"{threads}/{kind}/{what}/{test}"] for r in result["rounds"])) for test in tests]
                text.append(f"| {threads} | {kind} {what} | " + " | ".join(cells) + " |")
    return "\n".join(text) + "\n"


def machine_text(m: dict, results: list) -> str:
    read = {}
    for result in results:
        for key, values in result["limits"].items():
            _, _, threads, what = key.rsplit("/", 3)
            if what == "read_bandwidth_bytes_per_second":
                read.setdefault(int(threads), []).extend(values)
    bandwidth = ", ".join(f"{statistics.median(v) * 1e-9:.1f} GB/s with {t}" for t, v in sorted(read.items()))
    lines = [f"- {m['processor']} (family/model/stepping {m['family_model_stepping']}), {m['processors']} processors"
             + (", virtual" if m["virtual"] else "") + f", {m['memory_gib']} GiB, Linux {m['kernel']}",
             f"- {', '.join(m['instructions'])}", f"- {'; '.join(m['caches'])}"]
    if bandwidth:
        lines.append(f"- read bandwidth: {bandwidth} threads")
    lines.append(f"- llama.cpp {m['llama.cpp']} (Debian), {m['llmc']}, {m['date']}")
    return "\n".join(lines) + "\n"


# ---- the chart

LEFT, RIGHT, ROW, BAR, TOP = 190, 620, 22, 14, 56
INK, LINE, OWN, SPREAD = "#1f2328", "#d0d7de", "#2f6db5", "#1f2328"


def chart(results: list, title: str) -> str:
    """SVG: llmc's rate over that of llama.cpp's best, a bar for each test, target and number of threads, with the spread and the goal."""
    rows = []
    for result in results:
        for test in result["tests"]:
            for target in result["targets"]:
                for threads in result["threads"]:
                    values = ratios(result, threads, test, target, best(result, target))
                    rows.append((f"{test}, {target}, {threads} thread{'s' if threads > 1 else ''}", values, ratio_goal(result, test)))
    most = max([1.0] + [max(values + [goal or 0]) for _, values, goal in rows])
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100) if most / s <= 8)
    end = step * -(-most // step)

    def x(ratio: float) -> float:
        return LEFT + (RIGHT - LEFT) * ratio / end

    height = TOP + ROW * len(rows)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {RIGHT + 70} {height + 48}" font-family="sans-serif" font-size="12" '
           f'fill="{INK}">', f'<rect width="{RIGHT + 70}" height="{height + 48}" fill="white"/>',
           f'<text x="12" y="22" font-size="14" font-weight="bold">{escape(title)}</text>',
           f'<text x="12" y="40">times as fast as llama.cpp\'s best quantization; thin line: spread of the rounds, mark: goal</text>']
    ratio = 0.0
    while ratio <= end:
        svg.append(f'<line x1="{x(ratio):.1f}" y1="{TOP - 4}" x2="{x(ratio):.1f}" y2="{height}" stroke="{INK if ratio == 1 else LINE}"/>'
                   f'<text x="{x(ratio):.1f}" y="{height + 16}" text-anchor="middle">{ratio:g}</text>')
        ratio += step
    if step > 1:
        svg.append(f'<line x1="{x(1):.1f}" y1="{TOP - 4}" x2="{x(1):.1f}" y2="{height}" stroke="{INK}"/>')
    for i, (name, values, goal) in enumerate(rows):
        middle, y = statistics.median(values), TOP + ROW * i
        svg.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>'
                   f'<rect x="{LEFT}" y="{y + 1}" width="{x(middle) - LEFT:.1f}" height="{BAR}" fill="{OWN}"/>'
                   f'<line x1="{x(min(values)):.1f}" y1="{y + 8}" x2="{x(max(values)):.1f}" y2="{y + 8}" stroke="{SPREAD}"/>'
                   f'<text x="{x(max(values + [goal or 0])) + 6:.1f}" y="{y + 12}">{middle:.2f}</text>')
        if goal is not None:
            svg.append(f'<line x1="{x(goal):.1f}" y1="{y - 1}" x2="{x(goal):.1f}" y2="{y + 17}" stroke="{INK}" stroke-width="2.5"/>')
    svg.append("</svg>")
    return "\n".join(svg) + "\n"
