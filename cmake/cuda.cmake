# The CUDA kernels on the host: what they need, and the targets that compile them as C++.
#
# The kernel files are listed once. A source property such as LANGUAGE holds for one directory, so the targets that compile
# them as C++ stand in other directories than those that compile them with nvcc.

# The headers of a CUDA toolkit are enough; neither nvcc nor a GPU is needed.
find_path(NVLLM_CUDA_INCLUDE cuda_bf16.h
    HINTS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda
    PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include
    DOC "Where the headers of a CUDA toolkit are")

file(GLOB_RECURSE NVLLM_CUDA_KERNELS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu)

# Sets NVLLM_CUDA_ARCHITECTURES to a list where it is "auto". Programmatic launches, the cards' own instructions and a start
# without the driver's compiler need code of their own ("real"); what 80 makes as PTX, all later GPUs can use.
function(nvllm_choose_cuda_architectures)
    if(NOT NVLLM_CUDA_ARCHITECTURES STREQUAL "auto")
        return()
    endif()
    set(chosen "80;90a-real;100a-real;120a-real")
    find_program(NVLLM_NVIDIA_SMI nvidia-smi)
    if(NOT "$ENV{NVLLM_CUDA_ARCHITECTURES}" STREQUAL "")
        set(chosen "$ENV{NVLLM_CUDA_ARCHITECTURES}")
    elseif(NVLLM_NVIDIA_SMI)
        execute_process(COMMAND ${NVLLM_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
            OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
        string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
        if(status EQUAL 0 AND capabilities)
            nvllm_real_architectures(chosen ${capabilities})
        endif()
    endif()
    message(STATUS "GPUs that libnanovllm_cuda.so is compiled for: ${chosen}")
    set(NVLLM_CUDA_ARCHITECTURES "${chosen}" PARENT_SCOPE)
endfunction()

# nvllm_real_architectures(list 8.6 9.0 ...): 86-real, 90a-real: each once. Earlier ones than Ampere, which the kernels do not run
# on, are left out; the list stays as it is where nothing else is there.
function(nvllm_real_architectures list)
    set(all "")
    foreach(capability IN LISTS ARGN)
        string(REPLACE "." "" number ${capability})
        if(number GREATER_EQUAL 90)
            list(APPEND all "${number}a-real")
        elseif(number GREATER_EQUAL 80)
            list(APPEND all "${number}-real")
        endif()
    endforeach()
    if(all)
        list(REMOVE_DUPLICATES all)
        set(${list} "${all}" PARENT_SCOPE)
    endif()
endfunction()

# The module for real GPUs (kernels/cuda/CMakeLists.txt): where a toolkit is found, or wherever it is asked for.
set(NVLLM_CUDA auto CACHE STRING "Whether to build libnanovllm_cuda.so: auto (where nvcc is found), on, off")
set(NVLLM_CUDA_ARCHITECTURES auto CACHE STRING
    "GPUs to compile for, as CMake has them (releases: 80;86;89;90a;100a;120a); auto: $NVLLM_CUDA_ARCHITECTURES, else this machine's, else one of each generation since Ampere")
set(NVLLM_CUDA_MODULE FALSE)
if(NVLLM_CUDA STREQUAL on OR (NVLLM_CUDA STREQUAL auto AND NOT NVLLM_SANITIZE AND NOT NVLLM_BUILD_FUZZERS))
    find_program(NVLLM_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
    if(NVLLM_NVCC)
        nvllm_choose_cuda_architectures()
        set(CMAKE_CUDA_COMPILER ${NVLLM_NVCC} CACHE FILEPATH "The CUDA compiler")
        set(CMAKE_CUDA_ARCHITECTURES ${NVLLM_CUDA_ARCHITECTURES})
        enable_language(CUDA)
        # CMake 3.25 does not know nvcc's C++20.
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
        if(CCACHE)
            set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
        endif()
        set(NVLLM_CUDA_MODULE TRUE)
    elseif(NVLLM_CUDA STREQUAL on)
        message(FATAL_ERROR "NVLLM_CUDA=on needs the CUDA toolkit's nvcc: put it into PATH or set CUDA_HOME")
    else()
        message(STATUS "No nvcc: libnanovllm_cuda.so is not built")
    endif()
endif()

# ThreadSanitizer would have to be told of every switch of stacks, and finds nothing where one thread runs: in its builds
# the emulation and the kernels on it go without.
set(NVLLM_EMULATION_OPTIONS -fno-strict-aliasing)
if(NVLLM_SANITIZE MATCHES "thread")
    list(APPEND NVLLM_EMULATION_OPTIONS -fno-sanitize=thread)
endif()

# nvllm_emulated_kernels(target [OPTIONS ...] FILES ...): kernel files compiled as C++ against kernels/cuda_emulation.
function(nvllm_emulated_kernels target)
    cmake_parse_arguments(ARG "" "" "OPTIONS;FILES" ${ARGN})
    add_library(${target} OBJECT ${ARG_FILES})
    set_source_files_properties(${ARG_FILES} PROPERTIES LANGUAGE CXX)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
    target_include_directories(${target} SYSTEM PUBLIC ${NVLLM_CUDA_INCLUDE})
    # Kernels read vectors where scalars were written, as nvcc lets them.
    # "#pragma unroll" is for nvcc.
    target_compile_options(${target} PRIVATE ${NVLLM_EMULATION_OPTIONS} -Wno-unknown-pragmas ${ARG_OPTIONS})
    if(CMAKE_BUILD_TYPE STREQUAL "Release")
        target_compile_options(${target} PRIVATE -O1)  # a quarter of the time to compile, and they run for tests alone
    endif()
endfunction()
