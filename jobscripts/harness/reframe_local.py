"""A ReFrame configuration for one machine without a scheduler: mpirun starts the ranks, the compiler is the one in the PATH."""

site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "This machine",
            "hostnames": [".*"],
            "partitions": [{"name": "default", "scheduler": "local", "launcher": "mpirun", "environs": ["default"], "max_jobs": 1}],
        }
    ],
    "environments": [{"name": "default", "cc": "cc", "cxx": "", "ftn": ""}],
}
