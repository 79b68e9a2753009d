"""Pipeleaf as a ReFrame test: build, run, validate; the figure of merit is its performance.

    reframe -c jobscripts/harness/pipeleaf_reframe.py --tag '^tiny$' -r

with a site's configuration (-C), whose launcher starts the ranks. Tags are scales: tiny, small, node, rack, machine. Every
variable can be set by -S pipeleaf_test.NAME=VALUE (the build's by -S pipeleaf_build.NAME=VALUE). A run passes only where its
verdict is SUCCESSFUL, its figure was measured, as many ranks reported as were asked for, its exit code is 0, and the files left
behind agree with the shipped digests, where there are some.
"""

import json
import os
import re
import shlex

import reframe as rfm
import reframe.utility.sanity as sn

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
RANKS = {"tiny": 4, "small": 2, "node": 8, "rack": 64, "machine": 256}
ON_GPUS = ("node", "rack", "machine")


class pipeleaf_build(rfm.CompileOnlyRegressionTest):
    """The programs, from this checkout; or those of a build that exists."""

    descr = "Build Pipeleaf"
    sourcesdir = None

    #: A folder that holds pipeleaf and pipeleaf-validate; empty: they are built, in the stage directory.
    existing = variable(str, value="")

    #: More words for cmake, as in -S pipeleaf_build.cmake_words=-DPIPELEAF_CUDA=ON.
    cmake_words = variable(str, value="")

    @run_before("compile")
    def choose(self):
        """CMake with the environment's compilers, or nothing to do."""
        if self.existing:
            self.folder = os.path.abspath(self.existing)
            self.build_system = "CustomBuild"
            self.build_system.commands = ["true"]
            return
        self.folder = os.path.join(self.stagedir, "build")
        self.build_system = "CMake"
        self.build_system.configuredir = CHECKOUT
        self.build_system.builddir = self.folder
        self.build_system.config_opts = ["-DCMAKE_BUILD_TYPE=Release", "-DPIPELEAF_TESTS=OFF", *shlex.split(self.cmake_words)]

    @sanity_function
    def programs_are_there(self):
        """Both programs can be executed."""
        return sn.all([
            sn.assert_true(os.access(os.path.join(self.folder, program), os.X_OK), msg=f"no program {program} in {self.folder}")
            for program in ("pipeleaf", "pipeleaf-validate")
        ])


@rfm.simple_test
class pipeleaf_test(rfm.RunOnlyRegressionTest):
    """One run of the deck of a scale."""

    descr = "Pipelined transformer training steps, verified to the last bit"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    build = fixture(pipeleaf_build, scope="environment")
    scale = parameter(list(RANKS), loggable=True)

    #: Ranks; 0: those of the scale's deck. A multiple of them runs that many pipelines side by side.
    ranks = variable(int, value=0, loggable=True)

    #: Ranks a node of the scales that run on GPUs, with a GPU each; 0: the scheduler's choice.
    ranks_per_node = variable(int, value=8, loggable=True)

    #: More words for `pipeleaf run`, as in -S pipeleaf_test.words='run.steps=10 run.device=host'.
    words = variable(str, value="", loggable=True)

    #: The figure of merit that is wanted, in tokens/s; a run more than 5 % below it fails. 0: none.
    wanted_fom = variable(float, value=0.0)

    time_limit = "1h"

    @run_after("init")
    def name_the_scale(self):
        """The scale's tag and ranks."""
        self.tags = {self.scale}
        self.num_tasks = self.ranks or RANKS[self.scale]
        if self.scale in ON_GPUS and self.ranks_per_node:
            self.num_tasks_per_node = min(self.ranks_per_node, self.num_tasks)
            self.num_gpus_per_node = self.num_tasks_per_node

    @run_before("run")
    def say_what_runs(self):
        """The launch line; after it, in the same job, the files' own validation."""
        self.executable = os.path.join(self.build.folder, "pipeleaf")
        deck = os.path.join(CHECKOUT, "input", f"{self.scale}.nml")
        self.executable_opts = ["run", deck, "output.directory=out", *shlex.split(self.words)]
        validate = f"python3 {os.path.join(HERE, 'validate.py')} {self.build.folder} out"
        self.postrun_cmds = ["echo \"exit code = $?\" >exit_code.txt", f"{validate} >files.txt || true"]
        self.keep_files = ["out/listing.txt", "out/result.json", "files.txt", "exit_code.txt"]
        if self.wanted_fom:
            self.reference = {"*": {"fom": (self.wanted_fom, -0.05, None, "tokens/s")}}

    def read(self, name):
        """The text of a file of this run; empty where there is none."""
        try:
            with open(os.path.join(self.stagedir, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def find(self, pattern, name):
        """What the pattern's group caught in a file of this run, else MISSING."""
        found = re.search(pattern, self.read(name), re.MULTILINE)
        return found.group(1) if found else "MISSING"

    def ranks_reported(self):
        """The ranks that result.json speaks of, else MISSING."""
        try:
            return json.loads(self.read("out/result.json"))["ranks"]
        except (ValueError, KeyError, TypeError):
            return "MISSING"

    @sanity_function
    def is_right(self):
        """Every condition has its own words, so that the report says which one failed, and by what value."""
        # The listing's last two lines have one fixed shape; a listing that ends otherwise has no verdict.
        verdict = self.find(r"^FOM = .+\nVERIFICATION = (SUCCESSFUL|UNSUCCESSFUL|NOT PERFORMED)\n\Z", "out/listing.txt")
        fom = self.find(r"^FOM = (.+)\nVERIFICATION = .+\n\Z", "out/listing.txt")
        files = self.find(r"^FILES = (SUCCESSFUL|UNSUCCESSFUL|NOT PERFORMED|NO REFERENCE)\n\Z", "files.txt")
        code = self.find(r"^exit code = ([0-9]+)$", "exit_code.txt")
        ranks = self.ranks_reported()
        return sn.all([
            sn.assert_eq(verdict, "SUCCESSFUL", msg=f"VERIFICATION = {verdict}, exit code = {code}, FILES = {files}"),
            sn.assert_eq(ranks, self.num_tasks, msg=f"{ranks} ranks reported, {self.num_tasks} asked for"),
            sn.assert_in(files, ("SUCCESSFUL", "NO REFERENCE"), msg=f"FILES = {files}: the files left behind are not the run's"),
            sn.assert_eq(code, "0", msg=f"exit code = {code}, though VERIFICATION = {verdict}"),
            sn.assert_found_s(r"^[0-9.]+E[+-][0-9]+ tokens/s$", fom, msg=f"FOM = {fom}"),
        ])

    @performance_function("tokens/s")
    def fom(self):
        """The figure of merit: tokens of a step over its median time, of the slowest rank."""
        return sn.extractsingle(r"^FOM = ([0-9.]+E[+-][0-9]+) tokens/s$", os.path.join(self.stagedir, "out/listing.txt"), 1, float)
