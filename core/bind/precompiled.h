// What most sources of the Python module include, compiled once for all of them (CMakeLists.txt). No source
// includes this: each names what it needs.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "autograd/meta.h"
#include "bind/caster.h"
#include "bind/object.h"
#include "dispatch/operator.h"
#include "tensor/tensor.h"
