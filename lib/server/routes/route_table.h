// Every route of the server, in the order of the documents.
#pragma once

#include "lib/server/access/route_list.h"

namespace nvllm::server {

const RouteList& route_table();

}  // namespace nvllm::server
