# Rooms: each folder of kernels/ and lib/ is one object library; together they are the shared libnanovllm.

set(NVLLM_ROOMS "")

# nvllm_room(path [LIBRARIES ...]): all .cc files below `path` as one object library, nvllm_<last folder>.
function(nvllm_room path)
    cmake_parse_arguments(ARG "" "" "LIBRARIES" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path}/*.cc)
    if(NOT sources)
        return()
    endif()
    get_filename_component(name ${path} NAME)
    add_library(nvllm_${name} OBJECT ${sources})
    target_include_directories(nvllm_${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(nvllm_${name} PUBLIC Threads::Threads ${ARG_LIBRARIES})
    set(nvllm_${name}_SOURCES ${sources} PARENT_SCOPE)
    set(NVLLM_ROOMS ${NVLLM_ROOMS} nvllm_${name} PARENT_SCOPE)
endfunction()

# Files named for an instruction set are compiled for it; what runs is chosen at run time (kernels/cpu/isa.h).
function(nvllm_kernel_options file)
    if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        return()
    endif()
    if(file MATCHES "_avx2\\.cc$")
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    elseif(file MATCHES "_avx512\\.cc$")
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
            "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx2;-mfma;-mf16c;-mprefer-vector-width=512")
    elseif(file MATCHES "_avx512bf16\\.cc$")
        set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
            "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mavx2;-mfma;-mf16c;-mprefer-vector-width=512")
    endif()
endfunction()

# The shared library of all rooms.
function(nvllm_library)
    if(NOT NVLLM_ROOMS)
        return()
    endif()
    add_library(nanovllm SHARED)
    foreach(room IN LISTS NVLLM_ROOMS)
        target_link_libraries(nanovllm PRIVATE ${room})
    endforeach()
    target_include_directories(nanovllm PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/nanovllm>)
    target_compile_features(nanovllm PUBLIC cxx_std_20)
    target_link_libraries(nanovllm PUBLIC Threads::Threads PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(nanovllm PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
endfunction()

# nvllm_test(room): the doctest files below tests/<room> as one program, linked with just the rooms LAYERS lets that
# room include, so that a room can be built and tested without those above it.
function(nvllm_test path)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${path}/*.cc)
    if(NOT sources)
        return()
    endif()
    string(REPLACE "/" "_" name ${path})
    add_executable(test_${name} ${sources} ${CMAKE_SOURCE_DIR}/tests/main.cc)
    target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR})
    file(STRINGS ${CMAKE_SOURCE_DIR}/LAYERS lines REGEX "^${path}:")
    string(REGEX REPLACE "^[^:]*:" "" below "${lines}")
    string(REGEX REPLACE "\\([^)]*\\)" "" below "${below}")
    separate_arguments(below)
    foreach(room ${path} ${below} kernels)
        get_filename_component(room ${room} NAME)
        if(TARGET nvllm_${room})
            list(APPEND rooms nvllm_${room})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES rooms)
    target_link_libraries(test_${name} PRIVATE ${rooms} nlohmann_json::nlohmann_json fmt::fmt)
    target_compile_definitions(test_${name} PRIVATE
        NVLLM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME ${name} COMMAND test_${name})
endfunction()
