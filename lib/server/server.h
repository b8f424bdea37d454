// The server: models behind an HTTP interface, from the first listening socket to the last
// response.
//
// It listens at once and says on /ready what it is doing. Threads: one for I/O, a few that
// tokenize, one that loads models, and those of each engine; a request's work goes from one to the
// next and never holds up the I/O thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/engine/engine_config.h"
#include "lib/server/config/server_config.h"
#include "lib/system/service_manager.h"

namespace nvllm::server {

struct ServedModel {
    std::vector<std::string> names;  // at least one
    EngineConfig config;
};

class Server {
  public:
    // Reads keys and certificates; throws what is wrong with them. `manager` is told when it
    // listens, what it does, that it is alive, and that it ends; sockets that it passes are
    // listened at instead of the configured ones.
    Server(const ServerConfig& config, std::vector<ServedModel> models, std::string version,
           ServiceManager manager = {});
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Begins to listen everywhere. Throws unavailable for an address that is taken, usage for a
    // passed socket beyond this machine without a key.
    void listen();
    // The port it listens at; 0 for a Unix socket.
    uint16_t port() const;

    // Serves until it has been drained or aborted, which may be while models are still loaded.
    // Throws what kept the first models from loading.
    void run();

    // From any thread. No new requests; run() returns when all responses have ended, or cuts those
    // off that have not after the shutdown timeout.
    void drain();
    // Cuts everything off and lets run() return.
    void abort();
    // Whether abort() cut anything short.
    bool was_aborted() const;
    // Whether the first models are still being loaded: the destructor waits for that.
    bool is_loading() const;
    // The key file is read again; what is wrong with it is logged and the old keys stay.
    void reload();
    // The engines' books go to the log's stream.
    void dump_state();

  private:
    class Core;
    std::unique_ptr<Core> core_;
};

}  // namespace nvllm::server
