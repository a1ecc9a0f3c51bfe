// The five functions that mlx-rs calls and that exist on Apple hardware only.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>

#include "mlx/c/array.h"
#include "mlx/c/error.h"
#include "mlx/c/private/mlx.h"

namespace {

// mlx-c declares its 16-bit accessors where the C compiler has Arm's __fp16 and __bf16. Across the C interface both
// are two plain bytes, so MLX's own 16-bit types stand in for them.
template <class Half>
int item(uint16_t* result, const mlx_array array) {
  static_assert(sizeof(Half) == sizeof(*result));
  try {
    const Half value = mlx_array_get_(array).item<Half>();
    std::memcpy(result, &value, sizeof(value));
    return 0;
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return 1;
  }
}

template <class Half>
const uint16_t* data(const mlx_array array) {
  try {
    return reinterpret_cast<const uint16_t*>(mlx_array_get_(array).data<Half>());
  } catch (const std::exception& error) {
    mlx_error("%s", error.what());
    return nullptr;
  }
}

} // namespace

extern "C" {

int mlx_array_item_float16(uint16_t* result, const mlx_array array) {
  return item<mlx::core::float16_t>(result, array);
}

int mlx_array_item_bfloat16(uint16_t* result, const mlx_array array) {
  return item<mlx::core::bfloat16_t>(result, array);
}

const uint16_t* mlx_array_data_float16(const mlx_array array) {
  return data<mlx::core::float16_t>(array);
}

const uint16_t* mlx_array_data_bfloat16(const mlx_array array) {
  return data<mlx::core::bfloat16_t>(array);
}

// macOS's coarse clock, with which mlx-rs seeds its default random state. Ticks are nanoseconds here.
uint64_t mach_approximate_time() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // extern "C"
