// Every option of the server: the options of its parts, whose lists are next to them. One list
// makes flags, help, files and the limits that /nvllm/status shows.
#pragma once

#include <cstdint>

#include "lib/cli/option_list.h"
#include "lib/server/access/admission_options.h"
#include "lib/server/access/filter_options.h"
#include "lib/server/access/key_options.h"
#include "lib/server/batches/batch_options.h"
#include "lib/server/http/address_options.h"
#include "lib/server/http/connection_options.h"
#include "lib/server/models/served_model_options.h"
#include "lib/server/openai/output_format_options.h"
#include "lib/server/openai/request_limits.h"
#include "lib/server/operations/alert_options.h"
#include "lib/server/operations/log_options.h"
#include "lib/server/requests/request_timeouts.h"
#include "lib/server/responses/response_store_options.h"

namespace nvllm::server {

struct ServerConfig {
    ServedModelOptions served;
    AddressOptions addresses;
    KeyOptions keys;
    FilterOptions filter;
    ConnectionOptions connections;
    RequestTimeouts timeouts;
    AdmissionOptions admission;
    RequestLimits requests;
    OutputFormatOptions formats;
    ResponseStoreOptions responses;
    ServerLogOptions log;
    AlertOptions alerts;
    BatchOptions batches;
    double shutdown_timeout_s = 30.0;
    int32_t tokenizer_threads = 2;
};

OptionList<ServerConfig> server_options();

// Throws usage or bad_config for options that contradict each other.
void check_server_config(const ServerConfig& config);

}  // namespace nvllm::server
