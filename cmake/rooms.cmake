# Rooms: each folder of kernels/ and lib/ is one object library; together they are the shared libnanovllm.

set(NVLLM_ROOMS "")

# Fault points (lib/base/fault_points.h) exist in builds with tests. Only files that have some are told so: switching the
# tests on must not compile everything else anew.
function(nvllm_fault_points)
    if(NOT NVLLM_BUILD_TESTS)
        return()
    endif()
    foreach(file ${ARGN})
        file(STRINGS ${file} includes REGEX "fault_points\\.h")
        if(includes)
            set_property(SOURCE ${file} APPEND PROPERTY COMPILE_DEFINITIONS NVLLM_FAULT_POINTS)
        endif()
    endforeach()
endfunction()

# Headers that nearly every file reads, compiled once: for builds that are made for a check only (NVLLM_PRECOMPILE). The
# Release build goes without, so that each file is known to include what it uses.
function(nvllm_precompile target)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    if(NOT NVLLM_PRECOMPILE OR NOT "fmt::fmt" IN_LIST libraries)
        return()
    endif()
    if(NOT TARGET nvllm_precompiled)
        file(CONFIGURE OUTPUT precompiled.cc CONTENT "")
        # With these ccache keeps what is compiled with precompiled headers.
        add_library(nvllm_precompiled_options INTERFACE)
        target_compile_options(nvllm_precompiled_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
            "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
        add_library(nvllm_precompiled OBJECT ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cc)
        target_link_libraries(nvllm_precompiled PRIVATE nvllm_precompiled_options fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
        target_precompile_headers(nvllm_precompiled PRIVATE <algorithm> <chrono> <functional> <map> <memory> <mutex>
            <optional> <string> <thread> <unordered_map> <variant> <vector> <fmt/format.h> <nlohmann/json.hpp>)
    endif()
    target_compile_options(${target} PRIVATE -fPIC)  # as the precompiled ones are, programs as well
    target_link_libraries(${target} PRIVATE nvllm_precompiled_options)
    target_precompile_headers(${target} REUSE_FROM nvllm_precompiled)
endfunction()

# nvllm_room(path [APART] [LIBRARIES ...]): all .cc files below `path` as one object library, nvllm_<last folder>. APART:
# linked into the programs that name it, and no part of libnanovllm, so that other programs do not carry it. BYTES: values
# are read where they lie in files and in memory of others, so sanitizers look at alignment too. ALONE: in builds that are made
# for a check only, several files are compiled as one, which halves the time; not these, whose private names others have too.
function(nvllm_room path)
    cmake_parse_arguments(ARG "APART;BYTES" "" "LIBRARIES;ALONE" ${ARGN})
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${path}/*.cc)
    list(FILTER sources EXCLUDE REGEX "/kernels/(cuda|cuda_emulation|mpi)/")  # modules of their own
    if(NOT sources)
        return()
    endif()
    get_filename_component(name ${path} NAME)
    add_library(nvllm_${name} OBJECT ${sources})
    nvllm_fault_points(${sources})
    target_include_directories(nvllm_${name} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(nvllm_${name} PUBLIC Threads::Threads ${ARG_LIBRARIES})
    if(ARG_BYTES AND NVLLM_SANITIZE MATCHES "undefined")
        target_compile_options(nvllm_${name} PRIVATE -fsanitize=alignment)
    endif()
    nvllm_precompile(nvllm_${name})
    if(NVLLM_PRECOMPILE)
        set_target_properties(nvllm_${name} PROPERTIES UNITY_BUILD ON)
        # A file of a unity build is an included one: what it keeps to itself is no fault there.
        target_compile_options(nvllm_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
        list(TRANSFORM ARG_ALONE PREPEND ${CMAKE_SOURCE_DIR}/${path}/)
        set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
    set(nvllm_${name}_SOURCES ${sources} PARENT_SCOPE)
    if(NOT ARG_APART)
        set(NVLLM_ROOMS ${NVLLM_ROOMS} nvllm_${name} PARENT_SCOPE)
    endif()
endfunction()

# Files named for an instruction set are compiled for it; what runs is chosen at run time (kernels/cpu/dispatch/isa.h).
#
# They are the files that take longest to compile. The scalar ones are for processors without vectors and for comparison:
# half of the time makes them nearly as fast. Under ThreadSanitizer only AVX2's are instrumented and optimised: one
# instruction set shows which thread touches what (scripts/check.sh names it to the tests). Under AddressSanitizer all are;
# UndefinedBehaviorSanitizer looks at the same templates in the scalar ones alone.
function(nvllm_kernel_options file)
    if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" OR NOT file MATCHES "/kernels_([a-z0-9]+)\\.cc$")
        return()
    endif()
    set(isa ${CMAKE_MATCH_1})
    set(options "")
    if(isa STREQUAL "scalar" AND CMAKE_BUILD_TYPE STREQUAL "Release")
        list(APPEND options -O2)
    endif()
    if(isa MATCHES "^avx")
        list(APPEND options -mavx2 -mfma -mf16c)
        if(NVLLM_SANITIZE MATCHES "undefined")
            list(APPEND options -fno-sanitize=undefined)
        endif()
    endif()
    if(isa MATCHES "^avx512")
        list(APPEND options -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
        if(NVLLM_SANITIZE MATCHES "address")
            list(APPEND options -Og)
        endif()
    endif()
    if(isa MATCHES "^avx512(vnni|bf16)$")
        list(APPEND options -m${isa})
    elseif(isa STREQUAL "avx512amx")
        list(APPEND options -mavx512bf16 -mavx512vnni)
    endif()
    if(NVLLM_SANITIZE MATCHES "thread" AND NOT isa STREQUAL "avx2")
        list(APPEND options -fno-sanitize=thread -O0)
    endif()
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${options}")
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
    # A call into a shared library takes one instruction on its way where GNU ld linked it, and three where mold did.
    if(MOLD)
        target_link_options(nanovllm PRIVATE -fuse-ld=bfd)
    endif()
endfunction()

# nvllm_rooms_below(room result): the rooms that LAYERS lets `room` include, and those that they may include, and so on.
function(nvllm_rooms_below room result)
    set(found "")
    set(todo ${room})
    while(todo)
        list(POP_FRONT todo next)
        string(REGEX REPLACE "^(kernels|lib/[^/]*)/.*" "\\1" next ${next})  # folders inside a room have lines of their own
        if(next IN_LIST found)
            continue()
        endif()
        list(APPEND found ${next})
        file(STRINGS ${CMAKE_SOURCE_DIR}/LAYERS lines REGEX "^${next}(/[^:]*)?:")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^[^:]*:" "" below "${line}")
            string(REGEX REPLACE "\\([^)]*\\)" "" below "${below}")
            separate_arguments(below)
            list(APPEND todo ${below})
        endforeach()
    endwhile()
    set(${result} ${found} PARENT_SCOPE)
endfunction()

# nvllm_room_targets(room result): the object libraries of `room` and of the rooms below it.
function(nvllm_room_targets path result)
    nvllm_rooms_below(${path} below)
    set(rooms "")
    foreach(room ${below})
        get_filename_component(room ${room} NAME)
        if(TARGET nvllm_${room})
            list(APPEND rooms nvllm_${room})
        endif()
    endforeach()
    set(${result} ${rooms} PARENT_SCOPE)
endfunction()

# What is only run to check something: not optimised to the end. Sanitizers look at it too: what headers define may be linked from
# there.
function(nvllm_check_options target)
    # An expression that throws ends its case by itself.
    target_compile_definitions(${target} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        target_compile_options(${target} PRIVATE -Og)  # clang's is -O1
    endif()
endfunction()

# nvllm_test(room): the doctest files below tests/<room> as one program, linked with just the rooms below that room, so
# that a room can be built and tested without those above it.
function(nvllm_test path)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${path}/*.cc)
    list(FILTER sources EXCLUDE REGEX "/tests/kernels/cuda/")
    if(NOT sources)
        return()
    endif()
    list(FILTER sources EXCLUDE REGEX "_backend/")  # modules are apart
    string(REPLACE "/" "_" name ${path})
    nvllm_fault_points(${sources})
    add_executable(test_${name} ${sources})
    target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR})
    nvllm_room_targets(${path} rooms)
    target_link_libraries(test_${name} PRIVATE nvllm_test_main ${rooms} nlohmann_json::nlohmann_json fmt::fmt)
    target_compile_definitions(test_${name} PRIVATE NVLLM_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    nvllm_check_options(test_${name})
    # What is tested is optimized as it is used; tests themselves are not worth the compiler's time.
    target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    nvllm_precompile(test_${name})
    add_test(NAME ${name} COMMAND test_${name})
endfunction()

# nvllm_program_texts(program): the program's manual page and completions, printed by itself, are built and installed
# with it.
function(nvllm_program_texts program)
    if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
        message(STATUS "${program}: no manual page and completions, which it would have to be run for")
        return()
    endif()
    set(folder ${CMAKE_BINARY_DIR}/texts)
    file(MAKE_DIRECTORY ${folder})
    set(manual ${folder}/${program}.1)
    set(bash ${folder}/${program})
    set(zsh ${folder}/_${program})
    set(fish ${folder}/${program}.fish)
    add_custom_command(OUTPUT ${manual} ${bash} ${zsh} ${fish}
        COMMAND ${program} --man > ${manual}
        COMMAND ${program} --completion bash > ${bash}
        COMMAND ${program} --completion zsh > ${zsh}
        COMMAND ${program} --completion fish > ${fish}
        DEPENDS ${program} VERBATIM)
    add_custom_target(${program}-texts ALL DEPENDS ${manual} ${bash} ${zsh} ${fish})
    install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${bash} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${zsh} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${fish} DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()
