# Runs at every build, so that the commit is the one that is built and not the one that was configured; the header changes, and
# what includes it is compiled again, only when its text does.
# In: SOURCE (the tree), TEMPLATE, OUTPUT, VERSION, BUILD_TYPE, COMPILER, and COMMIT where the tree is not a git checkout.
if(NOT COMMIT)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 git describe --always --abbrev=12 --exclude=* --dirty=+changes
    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT COMMIT)
  set(COMMIT unknown)
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
