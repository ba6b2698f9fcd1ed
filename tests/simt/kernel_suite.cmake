# The kernel suite: what every backend must do, and what only the CUDA one has. It runs on the emulator (tests/simt) and on a
# GPU (tests/gpu).
set(kernel_suite_sources)
foreach(name elementwise embedding linear loss norm optimizer)
  list(APPEND kernel_suite_sources ${CMAKE_SOURCE_DIR}/tests/unit/backend/${name}_test.cpp)
endforeach()
list(APPEND kernel_suite_sources ${CMAKE_SOURCE_DIR}/tests/unit/attention/attention_reference.cpp)
foreach(name cuda_under_test alignment_test attention_choice_test attention_test embedding_test grid_test position_test
    position_series_test qkv_reference qkv_split_test)
  list(APPEND kernel_suite_sources ${CMAKE_SOURCE_DIR}/tests/simt/${name}.cpp)
endforeach()
