# Files inside programs: nvllm_embed(file symbol) makes the static library nvllm_<symbol>, which defines
#     const std::string_view nvllm::<symbol>                 the bytes of the file
#     const std::string_view nvllm::<symbol>_script_sha256   of the text between <script> and </script>, in base64,
#     const std::string_view nvllm::<symbol>_style_sha256    and of its style, as a content security policy names them;
#                                                            empty where there is none
# A file may have parts: for a line "@include NAME" stands the file of that name beside it, which ends in a line feed. They
# are named after the symbol, so that the program is built again when one changes.
# The same file is the script that writes the source when the program is built: cmake -DFILE= -DSYMBOL= -DOUTPUT= -P.

function(nvllm_embed file symbol)
    set(source ${CMAKE_BINARY_DIR}/embedded/${symbol}.cc)
    get_filename_component(folder ${CMAKE_SOURCE_DIR}/${file} DIRECTORY)
    list(TRANSFORM ARGN PREPEND ${folder}/ OUTPUT_VARIABLE parts)
    add_custom_command(OUTPUT ${source}
        COMMAND ${CMAKE_COMMAND} -DFILE=${CMAKE_SOURCE_DIR}/${file} -DSYMBOL=${symbol} -DOUTPUT=${source}
            -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${CMAKE_SOURCE_DIR}/${file} ${parts} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        COMMENT "Embedding ${file}" VERBATIM)
    add_library(nvllm_${symbol} STATIC ${source})
endfunction()

# 32 bytes in hexadecimal to base64: every three digits are two letters; the last digit is one, with zeros behind it.
function(nvllm_base64_of_sha256 hex result)
    set(letters "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    set(text "")
    string(REGEX MATCHALL "..?.?" groups "${hex}00")
    foreach(group IN LISTS groups)
        math(EXPR first "0x${group} >> 6")
        math(EXPR second "0x${group} & 63")
        string(SUBSTRING ${letters} ${first} 1 first)
        string(SUBSTRING ${letters} ${second} 1 second)
        string(APPEND text ${first} ${second})
    endforeach()
    string(SUBSTRING ${text} 0 43 text)
    set(${result} ${text}= PARENT_SCOPE)
endfunction()

# The digest of what stands in the first element of this kind, or nothing.
function(nvllm_element_sha256 text tag result)
    set(${result} "" PARENT_SCOPE)
    string(FIND "${text}" "<${tag}>" begin)
    string(FIND "${text}" "</${tag}>" end)
    if(begin LESS 0 OR end LESS begin)
        return()
    endif()
    string(LENGTH "<${tag}>" length)
    math(EXPR begin "${begin} + ${length}")
    math(EXPR length "${end} - ${begin}")
    string(SUBSTRING "${text}" ${begin} ${length} content)
    string(SHA256 hex "${content}")
    nvllm_base64_of_sha256(${hex} digest)
    set(${result} ${digest} PARENT_SCOPE)
endfunction()

# `output` is the file with its parts, or the file itself where it has none.
function(nvllm_join file joined output)
    file(READ "${file}" text)
    string(REGEX MATCHALL "\n@include [a-z_]+[.][a-z]+" lines "${text}")
    if(NOT lines)
        set(${output} "${file}" PARENT_SCOPE)
        return()
    endif()
    get_filename_component(folder "${file}" DIRECTORY)
    foreach(line IN LISTS lines)
        string(REPLACE "\n@include " "" name "${line}")
        file(READ "${folder}/${name}" part)
        string(REPLACE "${line}\n" "\n${part}" text "${text}")
    endforeach()
    file(WRITE "${joined}" "${text}")
    set(${output} "${joined}" PARENT_SCOPE)
endfunction()

function(nvllm_write_embedded file symbol output)
    get_filename_component(name "${file}" NAME)
    nvllm_join("${file}" "${output}.joined" file)
    file(READ "${file}" hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR size_bytes "${digits} / 2")
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${hex}")
    file(READ "${file}" text)
    nvllm_element_sha256("${text}" script script_sha256)
    nvllm_element_sha256("${text}" style style_sha256)
    file(WRITE "${output}" "// The bytes of ${name}; written by cmake/embed.cmake.
#include <string_view>

namespace nvllm {

static const char bytes[] = {${bytes}'\\0'};

extern const std::string_view ${symbol}, ${symbol}_script_sha256, ${symbol}_style_sha256;
const std::string_view ${symbol}(bytes, ${size_bytes});
const std::string_view ${symbol}_script_sha256 = \"${script_sha256}\";
const std::string_view ${symbol}_style_sha256 = \"${style_sha256}\";

}  // namespace nvllm
")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
    nvllm_write_embedded("${FILE}" ${SYMBOL} "${OUTPUT}")
endif()
