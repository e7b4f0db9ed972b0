#pragma once
/// runtime/base/overload.h: several lambdas as one visitor: std::visit(Overload{[](A) {}, [](B)
/// {}}, value).

namespace dlrun {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace dlrun
