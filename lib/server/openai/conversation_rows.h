// Rows of the table of parameters for /v1/messages and /v1/responses.
#pragma once

#include "lib/server/openai/parameter_table.h"

namespace nvllm::server {

void add_message_rows(std::vector<Parameter>& table, const RequestLimits& limits);
void add_response_rows(std::vector<Parameter>& table, const RequestLimits& limits);

// Of chat_template_kwargs. What has a field of its own is no variable.
schema::Json template_variables();

}  // namespace nvllm::server
