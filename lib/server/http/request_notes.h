// What becomes known of a request while it is served, for its line in the log. Thread-safe: parts
// are known on the thread that reads the request, others on the engine's.
#pragma once

#include <mutex>
#include <string>

#include "lib/server/openai/response_types.h"

namespace nvllm::server {

class RequestNotes {
  public:
    struct Values {
        std::string model;
        std::string key;    // its name; empty: none was needed
        std::string error;  // the code of a refusal or a fault, else its type
        std::string param;  // the field that is at fault
        Usage usage;
    };

    void set_model(const std::string& name) { set(&Values::model, name); }
    void set_key(const std::string& name) { set(&Values::key, name); }
    void set_usage(const Usage& usage) { set(&Values::usage, usage); }
    void set_error(const std::string& error, const std::string& param) {
        set(&Values::error, error);
        set(&Values::param, param);
    }

    Values values() const {
        const std::lock_guard lock(mutex_);
        return values_;
    }

  private:
    template <typename T>
    void set(T Values::*member, const T& value) {
        const std::lock_guard lock(mutex_);
        values_.*member = value;
    }

    mutable std::mutex mutex_;
    Values values_;
};

}  // namespace nvllm::server
