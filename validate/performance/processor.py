"""What the processor has."""


def has(flag):
    """Whether the flag ("avx512f") is among those that Linux reports; false on processors that it reports otherwise."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("flags"):
                return flag in line.split(":", 1)[1].split()
    return False
