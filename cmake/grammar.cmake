# The grammar engine that lib/grammar stands on (scripts/xgrammar.sh): fetched when the build is configured, compiled once for
# all presets. Without it requests for structured output are refused.
option(NVLLM_GRAMMAR "Structured output: builds xgrammar's core, fetched from Python's package index" ON)

# nvllm_grammar_room(): lib/grammar with the engine, or without one.
function(nvllm_grammar_room)
    get_target_property(sources nvllm_grammar SOURCES)
    if(NOT NVLLM_GRAMMAR)
        list(FILTER sources EXCLUDE REGEX "/grammar/engine/")
        set_target_properties(nvllm_grammar PROPERTIES SOURCES "${sources}")
        return()
    endif()
    list(FILTER sources EXCLUDE REGEX "/grammar/no_engine/")
    set_target_properties(nvllm_grammar PROPERTIES SOURCES "${sources}")

    set(script ${CMAKE_SOURCE_DIR}/scripts/xgrammar.sh)
    set(folder ${CMAKE_SOURCE_DIR}/build/xgrammar)
    execute_process(COMMAND ${script} source RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "xgrammar's source is not there; what is said above helps, or -DNVLLM_GRAMMAR=OFF")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script} ${CMAKE_SOURCE_DIR}/scripts/xgrammar.patch)
    add_custom_command(OUTPUT ${folder}/libxgrammar.a
        COMMAND ${script} library
        DEPENDS ${script} ${CMAKE_SOURCE_DIR}/scripts/xgrammar.patch
        COMMENT "Compiling xgrammar, once for all presets" VERBATIM)
    add_custom_target(xgrammar_library DEPENDS ${folder}/libxgrammar.a)
    add_dependencies(nvllm_grammar xgrammar_library)
    target_include_directories(nvllm_grammar SYSTEM PRIVATE ${folder}/source/include
        ${folder}/source/3rdparty/dlpack/include)
    # Of the library's names none leaves what it is linked into.
    target_link_libraries(nvllm_grammar PUBLIC ${folder}/libxgrammar.a)
    target_link_options(nvllm_grammar PUBLIC LINKER:--exclude-libs,libxgrammar.a)
endfunction()
