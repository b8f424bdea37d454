// Bodies of multipart/form-data (RFC 7578), as uploads of files are sent.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace nvllm::server {

// A view of the body, which outlives it.
struct FormField {
    std::string name;
    std::string file_name;  // empty: not a file
    std::string_view content;
};

// The fields in their order. Faults (bad_data) say what is wrong with the body's form.
// `content_type`: the header, with the boundary.
Result<std::vector<FormField>> read_form(std::string_view content_type, std::string_view body);

}  // namespace nvllm::server
