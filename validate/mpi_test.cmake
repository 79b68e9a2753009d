# pipeleaf_mpi_test(NAME RANKS [TIMEOUT seconds] [ENVIRONMENT name=value ...] COMMAND target-or-program [argument ...])
# adds a test that runs the command on so many ranks. pipeleaf_launcher_test(...) is the same for a command that starts the
# launcher itself: it finds it in the environment, as PIPELEAF_LAUNCH ("/usr/bin/mpiexec -n"). Most of such a command's time a
# launcher starts, ends, or waits for ranks to end. Where no time is measured, and none is short, RANKS is given as 1, however many
# it launches: it then runs beside another test, which takes half as long as one after the other.
#
# What Open MPI needs to start as root, with more ranks than cores, unbound, goes through the environment (4.x and 5.x name
# it differently), because MPICH's launcher refuses flags that it does not know.

set(PIPELEAF_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none)
# Threads that wait for work sleep: on a machine that runs more threads than it has cores, spinning ones stop the others.
list(APPEND PIPELEAF_MPI_ENVIRONMENT OMP_WAIT_POLICY=passive)
# Only the program's own code is watched for races: an MPI library that was not built for it looks like one race.
list(APPEND PIPELEAF_MPI_ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1 suppressions=${CMAKE_CURRENT_LIST_DIR}/channel/tsan.supp")
# MPI libraries keep memory for good, in plugins that are unloaded before the leak checker could name them.
list(APPEND PIPELEAF_MPI_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)

# command... with the name of a target in first place replaced by its file
function(pipeleaf_resolve_command result program)
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  set(${result} ${program} ${ARGN} PARENT_SCOPE)
endfunction()

function(pipeleaf_finish_test name ranks timeout)
  if(NOT timeout)
    set(timeout 120)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} PROCESSORS ${ranks}
    ENVIRONMENT "${PIPELEAF_MPI_ENVIRONMENT};${ARGN}")
endfunction()

function(pipeleaf_mpi_test name ranks)
  cmake_parse_arguments(PARSE_ARGV 2 test "" "TIMEOUT" "COMMAND;ENVIRONMENT")
  pipeleaf_resolve_command(command ${test_COMMAND})
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS}
    ${command} ${MPIEXEC_POSTFLAGS})
  pipeleaf_finish_test(${name} ${ranks} "${test_TIMEOUT}" ${test_ENVIRONMENT})
endfunction()

function(pipeleaf_launcher_test name ranks)
  cmake_parse_arguments(PARSE_ARGV 2 test "" "TIMEOUT" "COMMAND;ENVIRONMENT")
  pipeleaf_resolve_command(command ${test_COMMAND})
  add_test(NAME ${name} COMMAND ${command})
  list(JOIN MPIEXEC_PREFLAGS " " flags)
  pipeleaf_finish_test(${name} ${ranks} "${test_TIMEOUT}"
    "PIPELEAF_LAUNCH=${MPIEXEC_EXECUTABLE} ${flags} ${MPIEXEC_NUMPROC_FLAG}" ${test_ENVIRONMENT})
endfunction()
