# Writes OUTPUT, a header that names the commit of SOURCE; touched only when that changes, so builds stay incremental.
cmake_minimum_required(VERSION 3.25)
# Without optional locks a build does not get in the way of a git command run meanwhile.
execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 git -C ${SOURCE} describe --always --exclude=* --abbrev=12 --dirty
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define LONGWAVE_COMMIT \"@commit@\"\n" @ONLY)
