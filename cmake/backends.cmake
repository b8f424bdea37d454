# Backend modules: shared libraries beside libnanovllm that are opened when one of their devices is asked for.

# What the headers of kernels/ call, for modules, which share no code with the program that opens them.
add_library(nvllm_module_support STATIC EXCLUDE_FROM_ALL
    kernels/context.cc kernels/device.cc kernels/error.cc kernels/module_file.cc kernels/page_memory.cc
    kernels/shared_library.cc kernels/types.cc kernels/view.cc)
target_include_directories(nvllm_module_support PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(nvllm_module_support PUBLIC ${CMAKE_DL_LIBS})

# nvllm_backend_module(name [TESTS] files...): libnanovllm_<name>.so, which shows nothing but its table. TESTS: apart
# from the library, where only those who are told to look there find it ($NVLLM_BACKEND_PATH).
function(nvllm_backend_module name)
    cmake_parse_arguments(ARG "TESTS" "" "" ${ARGN})
    add_library(nanovllm_${name} MODULE ${ARG_UNPARSED_ARGUMENTS})
    target_link_libraries(nanovllm_${name} PRIVATE nvllm_module_support)
    set_target_properties(nanovllm_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    target_link_options(nanovllm_${name} PRIVATE -Wl,--exclude-libs,ALL)
    if(ARG_TESTS)
        set_target_properties(nanovllm_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test_modules)
    endif()
endfunction()
