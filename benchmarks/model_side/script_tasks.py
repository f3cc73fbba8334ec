"""Tasks of the demo's servers, each as a script. ``WORK`` stands for the folder of the files."""

HELP = """\
import asyncio, json
def rows(text):
    return json.loads(text.replace("'", '"'))
"""
"""The answers of the demo's database are in Python's notation, not in JSON."""
_LOGS = 'names = [f"WORK/logs/log-{n:02}.txt" for n in range(COUNT)]\n'
_TEXTS = (
    _LOGS + "reads = [tools.filesystem.read_text_file(path=n) for n in names]\n"
    'texts = [read["content"] for read in await asyncio.gather(*reads)]\n'
)
_PEOPLE = (
    'read = await tools.filesystem.read_text_file(path="WORK/people.json")\n'
    'people = json.loads(read["content"])\n'
)
_ORDERS = 'orders = rows(await tools.sqlite.read_query(query="SELECT * FROM orders"))\n'
_ZONES = ("Asia/Tokyo", "America/New_York", "Europe/London", "Asia/Kolkata", "Africa/Cairo")
_MANY: dict[str, tuple[str, tuple[int, ...]]] = {
    "Count the errors in COUNT logs": (_TEXTS + '[t.count("ERROR") for t in texts]',
        (3, 6, 10, 20)),
    "The longest line of COUNT logs": (
        _TEXTS + "max((line for t in texts for line in t.splitlines()), key=len)", (3, 10)),
    "Which of COUNT logs speak of the disk?": (
        _TEXTS + '[n for n, t in zip(names, texts) if "disk" in t]', (5, 20)),
    "A time in COUNT zones": (
        (f"zones = {list(_ZONES)}[:COUNT]\n"
        "found = await asyncio.gather(*[tools.time.convert_time(source_timezone='Europe/Berlin', "
        "time='15:00', target_timezone=z) for z in zones])\n"
        "{z: f['target']['datetime'] for z, f in zip(zones, found)}"), (2, 5)),
    "Calculate COUNT terms": (
        ("found = [await tools.calculator.calculate(expression=f'{n}*17/{n + 3}') "
        "for n in range(1, COUNT + 1)]\n[str(f) for f in found]"), (5, 20)),
    "Copy COUNT logs without their debug lines": (
        _TEXTS + "for n, t in zip(names, texts):\n"
        "    kept = [line for line in t.splitlines() if 'DEBUG' not in line]\n"
        "    await tools.filesystem.write_file(path=n + '.short', content='\\n'.join(kept))\n"
        "len(names)", (2, 5)),
    "Remember COUNT people": (
        _PEOPLE + "for p in people[:COUNT]:\n"
        "    await tools.memory.create_entities(entities=[{'name': p['name'], 'entityType': "
        "'person', 'observations': [p['city']]}])\n'done'", (3, 10)),
    "The sizes of COUNT logs": (
        _LOGS + "found = await asyncio.gather(*[tools.filesystem.get_file_info(path=n) "
        "for n in names])\n[str(f)[:60] for f in found]", (4, 12)),
}  # fmt: skip
_ONE = {
    "The mean age of those who have ordered": _PEOPLE + _ORDERS
    + "buyers = {o['customer'] for o in orders}\nages = [p['age'] for p in people if p['name'] in "
    "buyers]\nsum(ages) / len(ages)",
    "Who of the customers is not among the people?": _PEOPLE + _ORDERS
    + "sorted({o['customer'] for o in orders} - {p['name'] for p in people})",
    "The sales by city": _PEOPLE + _ORDERS
    + "city = {p['name']: p['city'] for p in people}\ntotal = {}\nfor o in orders:\n"
    "    where = city.get(o['customer'], '?')\n"
    "    total[where] = total.get(where, 0) + o['amount']\n"
    "total",
    "The addresses of the three best customers": _PEOPLE + _ORDERS
    + "total = {}\nfor o in orders:\n    total[o['customer']] = total.get(o['customer'], 0) + "
    "o['amount']\nbest = sorted(total, key=lambda name: -total[name])[:3]\n"
    "{p['name']: p['mail'] for p in people if p['name'] in best}",
    "The people as an Excel sheet": _PEOPLE
    + "await tools.excel.create_workbook(path='WORK/people.xlsx')\n"
    "await tools.excel.write_range(path='WORK/people.xlsx', sheet='Sheet1', at='A1', "
    "rows=[[p['name'], p['age'], p['city']] for p in people])\nlen(people)",
    "The orders as a file": _ORDERS
    + "lines = [f\"{o['customer']},{o['item']},{o['amount']}\" for o in orders]\n"
    "await tools.filesystem.write_file(path='WORK/orders.csv', content='\\n'.join(lines))\n"
    "len(lines)",
    "The errors of all logs as one file": _TEXTS.replace("COUNT", "20")
    + "found = [line for t in texts for line in t.splitlines() if 'ERROR' in line]\n"
    "await tools.filesystem.write_file(path='WORK/errors.txt', content='\\n'.join(found))\n"
    "len(found)",
    "Five people as rows of the database": _PEOPLE  # noqa: S608 - rows of ours
    + 'for p in people[:5]:\n    await tools.sqlite.write_query(query=f"INSERT INTO orders '
    "(customer, item, amount) VALUES ('{p['name']}', 'card', 1)\")\n'done'",
    "The first line of every file in the folder":
    "found = await tools.filesystem.list_directory(path='WORK')\n"
    "names = [line[7:] for line in found['content'].splitlines() if line.startswith('[FILE]')]\n"
    "texts = await asyncio.gather(*[tools.filesystem.read_text_file(path=f'WORK/{n}', head=1) "
    "for n in names])\n{n: t['content'] for n, t in zip(names, texts)}",
    "The state of the repository":
    "a, b = await asyncio.gather(tools.git.git_status(repo_path='WORK/repo'), "
    "tools.git.git_log(repo_path='WORK/repo'))\nstr(a)[:200], str(b)[:200]",
    "Is the port of the configuration taken by a note?":
    "a, b = await asyncio.gather(tools.filesystem.read_text_file(path='WORK/config.json'), "
    "tools.filesystem.read_text_file(path='WORK/notes.txt'))\n"
    "[word for word in b['content'].split() if word in a['content']]",
    "How old are the people of each city?": _PEOPLE
    + "ages = {}\nfor p in people:\n    ages.setdefault(p['city'], []).append(p['age'])\n"
    "{city: sum(a) / len(a) for city, a in ages.items()}",
    "The orders above the mean": _ORDERS
    + "mean = sum(o['amount'] for o in orders) / len(orders)\n"
    "len([o for o in orders if o['amount'] > mean])",
    "Which days have more errors than warnings?": _TEXTS.replace("COUNT", "12")
    + "[n[-6:-4] for n, t in zip(names, texts) if t.count('ERROR') > t.count('WARNING')]",
    "A sheet of the sales by item": _ORDERS
    + "total = {}\nfor o in orders:\n    total[o['item']] = total.get(o['item'], 0) + o['amount']\n"
    "await tools.excel.create_workbook(path='WORK/sales.xlsx')\n"
    "await tools.excel.write_range(path='WORK/sales.xlsx', sheet='Sheet1', at='A1', "
    "rows=[[item, value] for item, value in total.items()])\nlen(total)",
    "The tables of the database": "await tools.sqlite.list_tables()",
    "The configuration":
    "(await tools.filesystem.read_text_file(path='WORK/config.json'))['content']",
    "The time in Tokyo": "(await tools.time.get_current_time(timezone='Asia/Tokyo'))['datetime']",
    "A product": "str(await tools.calculator.calculate(expression='17*23'))",
    "The state of git": "await tools.git.git_status(repo_path='WORK/repo')",
    "An echo": "await tools.everything.echo(message='hello')",
    "The files": "(await tools.filesystem.list_directory(path='WORK'))['content']",
}  # fmt: skip
_USES_HELP = ("asyncio", "json.", "rows(")
TASKS: dict[str, str] = {
    goal.replace("COUNT", str(count)): script.replace("COUNT", str(count))
    for goal, (script, counts) in _MANY.items()
    for count in counts
} | _ONE
"""The script of each task by its goal."""


def script_of(goal: str, workspace: str) -> str:
    """Returns the script of a task as a model sends it."""
    script = TASKS[goal].replace("WORK", workspace)
    return HELP + script if any(word in script for word in _USES_HELP) else script
