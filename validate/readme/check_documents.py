"""What the documents of the tree say is so: links resolve, parameters, files, options and messages exist.

    check_documents.py SOURCE BUILD CTEST STATEMENT

SOURCE is the source tree, BUILD the folder of the programs and of the tests, CTEST the program ctest. One statement a test;
`nothing_broken_passes` is the test of the others: a document in which everything is wrong (broken.txt) fails each of them."""
import os
import re
import subprocess
import sys

# Folders that are no part of the tree, and files that a document may name though only a user or a build makes them.
NOT_OURS = {".git", "build", "out", "__pycache__"}
MADE = re.compile(r"(out|build|gpu-check|job|pipeline[0-9N]+)(/|$)|.*\.csv$|CMakeCache\.txt$|gpu_check\.(txt|logs)$")
EXTENSIONS = "nml|sh|md|py|c|h|cu|cuh|cpp|h5|json|txt|digest|cmake|yaml|yml|toml|svg|png|html|cff|def"
# A file, or a folder by its slash; what stands after -c is a compiler's example.
PATH = re.compile(r"(?<![\w./$*<{=-])(?<!-c )((?:[\w.-]+/)*[\w.-]+\.(?:%s)|(?:[\w-]+/)+)(?![\w/*.])" % EXTENSIONS)


class Tree:
    """The source tree and what its programs say of themselves."""

    def __init__(self, source, build, ctest):
        self.source, self.build, self.ctest = source, build, ctest
        self.files = []
        for folder, folders, names in os.walk(source):
            folders[:] = [name for name in folders if name not in NOT_OURS]
            self.files += [os.path.relpath(os.path.join(folder, name), source) for name in names]
        self.names = {os.path.basename(path) for path in self.files}
        self.documents = sorted(path for path in self.files if path.endswith(".md"))
        self.deck = self.run("pipeleaf", "deck")
        self.groups = re.findall(r"(?m)^&(\w+)", self.deck)
        self.parameters = set()
        for line in self.deck.splitlines():
            if line.startswith("&"):
                group = line[1:]
            elif re.match(r"  \w", line):
                self.parameters.add("%s.%s" % (group, line.split()[0]))
        self.help = {name: self.run(name, "--help") for name in ("pipeleaf", "pipeleaf-validate")}
        self.commands = set(re.findall(r"(?m)^(?:usage:)? +pipeleaf (\w+)", self.help["pipeleaf"]))

    def run(self, program, *words):
        return subprocess.run([os.path.join(self.build, program), *words], check=True, capture_output=True, text=True).stdout

    def read(self, path):
        with open(os.path.join(self.source, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def texts(self, pattern):
        """The text of every file whose path matches, joined."""
        return "\n".join(self.read(path) for path in self.files if re.search(pattern, path))

    def tests(self):
        output = subprocess.run([self.ctest, "--test-dir", self.build, "-N"], check=True, capture_output=True, text=True).stdout
        return re.findall(r"(?m)^ *Test +#\d+: (\S+)", output)


# --- the parts of a document ---------------------------------------------------------------------------------------------

def without_code(text):
    """The prose: indented and fenced blocks and inline code blanked."""
    lines, fenced, before = [], False, ""
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            line = ""
        block = fenced or (line.startswith("    ") and (before == "" or before.startswith("    ")))
        lines.append("" if block else line)
        before = line
    return re.sub(r"`[^`]*`", "", "\n".join(lines))


def code_of(text):
    """Lines of code: those of blocks, continuation lines joined and comments off, and each inline piece."""
    joined = re.sub(r" \\\n\s*", " ", text)
    blocks = [re.sub(r"\s#\s.*|\s{2,}#.*", "", line).strip() for line in joined.splitlines() if line.startswith("    ")]
    prose = "\n".join(line for line in joined.splitlines() if not line.startswith("    "))
    return blocks + [re.sub(r"\s+", " ", piece) for piece in re.findall(r"`([^`]+)`", prose)]


def slugs(text):
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def cells(text):
    """The rows of all tables, as lists of cells."""
    rows = [line.strip().strip("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)] for row in rows if not re.fullmatch(r"[\s|:-]+", row)]


# --- the statements: each yields what is wrong in one document ------------------------------------------------------------

def every_link_resolves(tree, path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        full = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(os.path.join(tree.source, full)):
            yield "the link to %s leads nowhere" % target
        elif anchor and anchor not in slugs(text if not file else tree.read(full)):
            yield "%s has no heading for #%s" % (full, anchor)


def every_parameter_exists(tree, path, text):
    tests = None
    for name in sorted(set(re.findall(r"(?<![\w./-])((?:%s)\.[a-z]\w*)" % "|".join(tree.groups), text))):
        if name in tree.parameters or re.fullmatch(r"(?:%s)" % EXTENSIONS, name.split(".")[1]):
            continue
        tests = tree.tests() if tests is None else tests
        if not any(test.startswith(name) for test in tests):
            yield "%s is no parameter of a deck" % name
    for group in sorted(set(re.findall(r"(?<![\w&>])&([a-z]+)\b", text)) - set(tree.groups)):
        yield "&%s is no group of a deck" % group


def every_parameter_has_a_run_rule(tree, path, text):
    """Under 'Run rules' each parameter of a deck is called fixed or free, or is of a group that is."""
    rules = re.search(r"(?ms)^## Run rules$(.*?)^## ", text)
    if path != "README.md" and not rules:
        return
    for name in sorted(tree.parameters):
        if not rules or not re.search(r"`(%s|&%s)`" % (re.escape(name), name.split(".")[0]), rules.group(1)):
            yield "there is no run rule for %s" % name


def file_exists(tree, path, name):
    folders = (os.path.dirname(path), "", "src", "validate")
    if any(os.path.exists(os.path.join(tree.source, folder, name)) for folder in folders) or MADE.match(name):
        return True
    if re.fullmatch(r"\w+/", name):
        return any("/" + name in "/" + file for file in tree.files)
    if "/" in name:
        return False
    written = re.sub(r"\d{5}", "%05d", name)  # what the program writes is named in its source
    return name in tree.names or re.search(r'["/]%s\b' % re.escape(written), tree.sources) is not None


def every_file_exists(tree, path, text):
    tree.sources = tree.texts(r"^(src|validate|jobscripts)/.*\.(c|h|py|sh|cpp|cmake)$|CMakeLists.txt$")
    for code in code_of(text):
        for name in PATH.findall(code):
            if name.startswith("-") or re.search(r"(^|/)[A-Z]+(/|\.(?!md))", name):  # NAME.nml stands for any
                continue
            if not file_exists(tree, path, name):
                yield "there is no file %s" % name


def every_option_exists(tree, path, text):
    scripts = {name: tree.read(name) for name in tree.files if re.search(r"\.(sh|py)$", name)}
    cmake = tree.texts(r"(CMakeLists\.txt|\.cmake|CMakePresets\.json)$")
    everything = tree.texts(r"^(?!.*\.md$)(?!validate/readme/)")
    for code in code_of(text):
        said, what = None, ""
        for word in code.split():
            name = os.path.basename(word)
            script = next((script for script in scripts if script == word or os.path.basename(script) == name), None)
            if name in tree.help:
                said, what = tree.help[name], name
            elif script:
                said, what = scripts[script], name
            elif re.fullmatch(r"cmake|ctest|h5diff|mpirun|mpiexec|srun|sbatch|git|pip|apptainer|spack|jube|reframe", name):
                said, what = None, name
            option = re.match(r"--[a-z][\w-]*", word)
            if not option:
                continue
            if said is not None and option.group() not in said:
                yield "%s has no option %s" % (what, option.group())
            elif not what and not any(option.group() in text for text in [*tree.help.values(), *scripts.values()]):
                yield "nothing has an option %s" % option.group()
        command = re.search(r"(?:^|[\s/])pipeleaf ([a-z]+)(?=\s|$)", code)
        if command and command.group(1) not in tree.commands:
            yield "pipeleaf has no command %s" % command.group(1)
        for program in re.findall(r"(?:^|[\s/])(pipeleaf-\w+)(?=\s|$)", code):
            if program not in tree.help:
                yield "there is no program %s" % program
        for script, word in re.findall(r"(?:^|\s)([\w./-]+\.sh) ([a-z]+)(?=\s|$)", code):
            full = next((name for name in scripts if name == script or os.path.basename(name) == os.path.basename(script)), None)
            if full and not re.search(r"\b%s\b" % word, scripts[full]):
                yield "%s does not know the word %s" % (script, word)
        for preset in re.findall(r"--preset[ =](\w+)", code):
            if '"name": "%s"' % preset not in cmake:
                yield "there is no preset %s" % preset
        for target in re.findall(r"--target[ =](\w+)", code):
            if not re.search(r"(?:target|executable|library)\(%s\b" % target, cmake):
                yield "there is no target %s" % target
    for name in sorted(set(re.findall(r"\bPIPELEAF_[A-Z0-9_]+", text))):
        if name not in everything:
            yield "nothing reads %s" % name


def every_command_line_is_accepted(tree, path, text):
    """The deck and the overrides of each command line; nothing is run."""
    for code in code_of(text):
        command = re.search(r"(?:^|[\s/])pipeleaf (run|plan|reference|deck) (\S+\.nml)(.*)", code)
        if not command or re.search(r"[A-Z]+\.nml$", command.group(2)):  # NAME.nml stands for any
            continue
        deck = next((name for name in (command.group(2), os.path.join("input", os.path.basename(command.group(2))))
                     if os.path.exists(os.path.join(tree.source, name))), None)
        if not deck:
            yield "%s: there is no such deck" % command.group(2)
            continue
        rest = re.sub(r"--\w[\w-]*(?: (?!\w+\.\w+=)[^\s-]\S*)?", "", command.group(3))
        overrides = [word for word in rest.split() if re.match(r"[a-z]+\.\w+=[^A-Z]", word)]
        done = subprocess.run([os.path.join(tree.build, "pipeleaf"), "deck", deck, *overrides], cwd=tree.source,
                              capture_output=True, text=True)
        if done.returncode != 0:
            yield "'%s': %s" % (code, done.stderr.strip())


def every_exit_code_is_described(tree, path, text):
    """In tables headed 'exit'."""
    codes = set(re.findall(r"EXIT_\w+ = (\d+)", tree.read("src/base/base.h")))
    described, heading = [], ""
    for row in cells(text):
        heading = heading if re.fullmatch(r"\d+", row[0]) else row[0]
        if heading == "exit" and row[0] != heading:
            described.append(row[0])
    if path != "README.md" and not described:
        return
    for code in sorted(codes - set(described)):
        yield "exit code %s is not described" % code
    for code in sorted(set(described)):
        if code not in codes:
            yield "there is no exit code %s" % code
        if described.count(code) > 1:
            yield "exit code %s is described %d times" % (code, described.count(code))


def every_claim_names_a_test(tree, path, text):
    if not re.search(r"(?m)^\| claim \|", text):
        return
    tests = tree.tests()
    with_cuda = any(test.startswith("cuda.") for test in tests)
    for row in cells(text):
        for pattern in re.findall(r"`([a-z]+\.[^`]*)`", row[1] if len(row) == 2 else ""):
            if not with_cuda and re.match(r"(cuda|double|gpu)\.|channel\.nccl", pattern):
                print("left out, for this build has no CUDA double: %s" % pattern)
            elif not any(re.search(pattern, test) for test in tests):
                yield "no test's name matches %s" % pattern


def literals(text):
    """Every string of a C source, adjacent ones joined, with its escapes undone; PRId64 and the like stand as nothing."""
    piece = r'"((?:[^"\\\n]|\\.)*)"|\bPRI\w+'
    for run in re.finditer(r'(?:%s)(?:\s*(?:%s))*' % (piece.replace("(", "(?:", 1), piece.replace("(", "(?:", 1)), text):
        joined = "".join(found.group(1) or "" for found in re.finditer(piece, run.group()))
        yield joined.replace("%%", "%").replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def every_message_is_the_program_s(tree, path, text):
    """In tables headed 'message' or 'line in the listing': the text between two values (an ellipsis) is in one string."""
    said = None
    for row in cells(text):
        if row[0] in ("message", "line in the listing"):
            said = "\0".join(string for name in tree.files if name.startswith("src/") and re.search(r"\.(c|h|cu)$", name)
                             for string in literals(tree.read(name)))
            continue
        message = re.fullmatch(r"`(.*)`", row[0])
        if said is None or not message:
            continue
        pieces = [re.escape(piece) for piece in message.group(1).split("…") if piece.strip()]
        if not pieces or not re.search(r"[^\0]{0,60}?".join(pieces), said):
            yield "the program never says `%s`" % message.group(1)


STATEMENTS = [every_link_resolves, every_parameter_exists, every_parameter_has_a_run_rule, every_file_exists, every_option_exists,
              every_command_line_is_accepted, every_exit_code_is_described, every_claim_names_a_test,
              every_message_is_the_program_s]


def nothing_broken_passes(tree):
    """Each statement finds in broken.txt as many faults as the document says that it has of that kind."""
    text = tree.read("validate/readme/broken.txt")
    wrong = 0
    for statement in STATEMENTS:
        wanted = re.search(r"(?m)^%s: (\d+)(\+?)$" % statement.__name__, text)
        found = list(statement(tree, "validate/readme/broken.txt", text))
        number = int(wanted.group(1)) if wanted else -1
        if len(found) < number or len(found) > number and not (wanted and wanted.group(2)):
            wrong += 1
            print("%s finds %d faults, not %d: %s" % (statement.__name__, len(found), number, found))
    return wrong


def main():
    tree = Tree(*sys.argv[1:4])
    if sys.argv[4] == nothing_broken_passes.__name__:
        sys.exit(nothing_broken_passes(tree) > 0)
    statement = next(statement for statement in STATEMENTS if statement.__name__ == sys.argv[4])
    wrong = 0
    for path in tree.documents:
        for fault in statement(tree, path, tree.read(path)):
            wrong += 1
            print("%s: %s" % (path, fault))
    print("%d documents, %d faults" % (len(tree.documents), wrong))
    sys.exit(wrong > 0 or len(tree.documents) < 10)


main()
