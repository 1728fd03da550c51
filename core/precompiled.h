// What most sources of the core include, compiled once for all of them (core/CMakeLists.txt). No source
// includes this: each names what it needs.
#pragma once

#include "autograd/meta.h"
#include "autograd/views.h"
#include "dispatch/derived.h"
#include "dispatch/family.h"
#include "kernels/copy.h"
#include "ops/contract/arguments.h"
#include "ops/contract/op.h"
#include "ops/contract/structured.h"
#include "runtime/parallel.h"
#include "tensor/device.h"
#include "tensor/tensor.h"
#include "transforms/transformed.h"
