// The polynomials of bessel.h and of the inverse of the error function, lowest power first: written by
// bessel_coefficients.py, which says how they are found. The comment gives the formula and the largest error.
#pragma once

#include "bits.h"

namespace adjoint::inline ADJOINT_ISA::math::coefficients {

template <class T>
struct Bessel;

template <>
struct Bessel<float> {
  /// I0(x) = P(x^2 / 4), x <= 4; 2^-31.2
  static constexpr float i0_near[] = {0x1.000000p+0f,  0x1.000000p+0f,  0x1.fffff0p-3f,  0x1.c71da4p-6f,
                                      0x1.c706a8p-10f, 0x1.24167ap-14f, 0x1.f4f224p-20f, 0x1.a9c8e2p-25f};
  /// I0(x) = e^x P(1/x - 0.125) / sqrt(2 pi x), x >= 4; 2^-28.4
  static constexpr float i0_far[] = {0x1.0453e0p+0f, 0x1.2dd4b8p-3f,  0x1.e32b7ap-4f,   0x1.e66adep-3f,
                                     0x1.9dc092p-1f, 0x1.0a6d56p+0f,  -0x1.77dccap+4f,  -0x1.1f39b6p+7f,
                                     0x1.b09af2p+8f, 0x1.2da422p+12f, -0x1.349778p+12f, -0x1.1f0510p+16f};
  /// I1(x) = x/2 P(x^2 / 4), x <= 4; 2^-27.5
  static constexpr float i1_near[] = {0x1.000000p+0f,  0x1.fffff6p-2f,  0x1.555620p-4f, 0x1.c70714p-8f,
                                      0x1.6d221cp-12f, 0x1.774c30p-17f, 0x1.764d32p-22f};
  /// I1(x) = e^x P(1/x - 0.125) / sqrt(2 pi x), x >= 4; 2^-28.3
  static constexpr float i1_far[] = {0x1.e6ef70p-1f,  -0x1.a4ace2p-2f,  -0x1.71de46p-3f, -0x1.34bd70p-2f,
                                     -0x1.ed4056p-1f, -0x1.7820b6p+0f,  0x1.8b773ep+4f,  0x1.46f0ccp+7f,
                                     -0x1.a542aap+8f, -0x1.4d2a24p+12f, 0x1.1fa126p+12f, 0x1.3a0690p+16f};
  /// erfinv(x) = x P(w - middle), w = -log(1 - x^2) = 3, w <= 6; 2^-27.7
  static constexpr float erfinv_near[] = {0x1.9fa072p+0f,   0x1.eedbecp-3f,  -0x1.780e76p-8f,
                                          -0x1.b66604p-11f, 0x1.9928c0p-13f, -0x1.aad37ap-17f,
                                          -0x1.da7db6p-20f, 0x1.e54652p-22f, -0x1.4d7d14p-26f,
                                          -0x1.96ab62p-28f, 0x1.72d206p-31f, 0x1.5a96b8p-36f};
  /// erfinv(x) = x P(s - 3.34375), s = sqrt(w) from 2.4375 to 4.25; 2^-28.4
  static constexpr float erfinv_middle[] = {
      0x1.96ce5ep+1f,  0x1.0194aap+0f,   0x1.229d34p-8f,  -0x1.82d66ap-9f, 0x1.dbedd0p-10f, -0x1.3d43f4p-10f,
      0x1.7f62acp-11f, -0x1.60b2dcp-12f, 0x1.04fac8p-14f, 0x1.bce3cap-15f, -0x1.09bfa8p-15f};
  /// the derivative of erfinv is P(w - 3) / (1 - x^2), w <= 6; 2^-27.8
  static constexpr float erfinv_slope_near[] = {
      0x1.147f16p-1f,   -0x1.1097c6p-4f, 0x1.4ceaa4p-7f,   -0x1.6e9568p-10f, 0x1.501ea8p-13f,
      -0x1.e6f9c6p-17f, 0x1.043f94p-20f, -0x1.8e4364p-25f, 0x1.cf5b7ep-29f,  -0x1.a306cep-32f};
  /// the derivative of erfinv is P(s - 3.34375) / (1 - x^2), s from 2.4375 to 4.25; 2^-30.3
  static constexpr float erfinv_slope_middle[] = {
      0x1.342ccep-2f,   -0x1.66c7f6p-4f,  0x1.8cf2eap-6f,  -0x1.99b66ep-8f,  0x1.77d194p-10f,
      -0x1.f07c38p-13f, -0x1.2759eep-16f, 0x1.85ea56p-15f, -0x1.ea20e2p-16f, 0x1.1c45dcp-17f};
  /// erfinv(x) = x (s + P(1/s - 0.15625)), s from 4.15 to 14; 2^-28.4
  static constexpr float erfinv_tail[] = {-0x1.17305cp-3f, -0x1.8257fep-2f,  0x1.90886ep+0f, -0x1.bef740p+1f,
                                          0x1.53572ep+3f,  -0x1.506d3cp+5f,  0x1.6beb9cp+7f, -0x1.5b8a88p+9f,
                                          0x1.9062d6p+11f, -0x1.114c5ap+15f, 0x1.7414b6p+17f};
};

template <>
struct Bessel<double> {
  /// I0(x) = P(x^2 / 4), x <= 8; 2^-60.0
  static constexpr double i0_near[] = {
      0x1.0000000000000p+0,  0x1.0000000000000p+0,  0x1.ffffffffffff3p-3,  0x1.c71c71c71c85cp-6,
      0x1.c71c71c71a934p-10, 0x1.23456789c5e91p-14, 0x1.02e85c06c9265p-19, 0x1.522a442191eb9p-25,
      0x1.522a41267bad4p-31, 0x1.0b3153e8e6e2ap-37, 0x1.55ff4d6b95becp-44, 0x1.69e62025c22bap-51,
      0x1.40a5d713df41ep-58, 0x1.f2a328b7383ecp-66, 0x1.108b00830c627p-73, 0x1.1cb034ae29267p-80};
  /// I0(x) = e^x P(1/x - 0.0625) / sqrt(2 pi x), x >= 8; 2^-57.0
  static constexpr double i0_far[] = {
      0x1.02134d0ead7f4p+0,   0x1.1406bc8de0193p-3,  0x1.66076ca936aaep-4,   0x1.d49ca2fb8a4a9p-4,
      0x1.f3377949e0fecp-3,   0x1.902af4362f785p-1,  0x1.dd969f682ded4p+1,   0x1.a76127f349013p+4,
      0x1.cfe7e747f06a7p+7,   0x1.4547fce916c86p+10, -0x1.21ce47c912b55p+14, -0x1.209df9ececbf4p+19,
      -0x1.d6fe909b4ed7dp+21, 0x1.44b99bc703f90p+26, 0x1.466e63b9e3587p+30,  -0x1.2c38896ef455ap+33,
      -0x1.0a7d1758443f8p+38, 0x1.0204284140516p+40, 0x1.4e45b37bfa183p+45,  -0x1.7f3eb9f030bcfp+46,
      -0x1.326deeefb355fp+52, 0x1.94606cfe620e8p+52, 0x1.650b4c02a9e67p+58,  -0x1.a7b39549f771ap+57,
      -0x1.85a63c0e60cdap+63};
  /// I1(x) = x/2 P(x^2 / 4), x <= 8; 2^-56.6
  static constexpr double i1_near[] = {0x1.0000000000000p+0,  0x1.ffffffffffff9p-2,  0x1.5555555555600p-4,
                                       0x1.c71c71c71adb0p-8,  0x1.6c16c16c357e2p-12, 0x1.845c8a0a2c137p-17,
                                       0x1.27e4fb9ee837fp-22, 0x1.522a40f95a128p-28, 0x1.2c9781267b867p-34,
                                       0x1.ab7eeae77808ap-41, 0x1.f19f20d790497p-48, 0x1.e0e1e343d2740p-55,
                                       0x1.959f20b3f049fp-62, 0x1.d9fff0aae71c0p-70, 0x1.0ce312a64790cp-76};
  /// I1(x) = e^x P(1/x - 0.0625) / sqrt(2 pi x), x >= 8; 2^-57.6
  static constexpr double i1_far[] = {
      0x1.f3c0639d4cae8p-1,  -0x1.9066c647d50e2p-2,  -0x1.201e5abc7183bp-3,  -0x1.3c37a55627cc9p-3,
      -0x1.34a9bc9cab780p-2, -0x1.d4d5c79220e22p-1,  -0x1.0d2e82c13421cp+2,  -0x1.d04f12e2f3387p+4,
      -0x1.f74b322ee3e75p+7, -0x1.6b6799bf1ce5ep+10, 0x1.2223ee763d7dcp+14,  0x1.2f59cff97a321p+19,
      0x1.00d0d3f60747ep+22, -0x1.50a059dfcf77bp+26, -0x1.529bde7770cefp+30, 0x1.479c8c91dae81p+33,
      0x1.0b1f5b8e001e7p+38, -0x1.5724bdb36fb0ap+40, -0x1.4345edffaa9e5p+45, 0x1.7128af725e62ep+47,
      0x1.1d8e914c73cf4p+52, -0x1.4aa45ad43f169p+54, -0x1.40d1341b77469p+58, 0x1.86b6ccb81684bp+60,
      0x1.5238883d5e128p+63, -0x1.b1d9d28634382p+65};
  /// K0(x) = -(log(x/2) + gamma) I0(x) + P(z), x <= 1, z = x^2 / 4; 2^-60.1
  static constexpr double k0_near[] = {-0x1.d17be4bb61a6cp-61, 0x1.0000000000002p+0, 0x1.7fffffffffd9dp-2,
                                       0x1.a12f684c003e3p-5,   0x1.da12f65f44da1p-9, 0x1.4c88ea2d473d3p-13,
                                       0x1.3d1da74a2d32fp-18,  0x1.bda46d389f78bp-24};
  /// K1(x) = 1/x + (log(x/2) + gamma) I1(x) - x/2 P(z), x <= 1, z = x^2 / 4; 2^-63.3
  static constexpr double k1_near[] = {0x1.0000000000000p-1,  0x1.4000000000000p-1,  0x1.1c71c71c71be7p-3,
                                       0x1.bda12f685d240p-7,  0x1.8d76b5383930ep-11, 0x1.cb8fb57422ff0p-16,
                                       0x1.74ff24ce1c471p-21, 0x1.c78847fd8a83cp-27};
  /// K0(x) = e^-x P(1/x - 5/8) sqrt(pi / (2x)), 1 <= x <= 4; 2^-58.8
  static constexpr double k0_middle[] = {
      0x1.e10e0335b6ff1p-1,  -0x1.3d792bf307ea4p-4,  0x1.64c172c4b6f5cp-6,  -0x1.2db0345edf5a7p-7,
      0x1.3dbaa2780bfb4p-8,  -0x1.814af22357e50p-9,  0x1.0228b044c4068p-9,  -0x1.7505e56014e8cp-10,
      0x1.1df7c629e51bfp-10, -0x1.cc1b4ebf14056p-11, 0x1.814f4aed3fb0ep-11, -0x1.4e0d6e7817e61p-11,
      0x1.2a1bfe867abd4p-11, -0x1.0e18cc1956e73p-11, 0x1.f929c1d3930cep-12, -0x1.0b49c97bc4d95p-11,
      0x1.065a462f1cdfdp-11, -0x1.c55f8c67d8982p-13, 0x1.a7788db58e403p-13, -0x1.1c727f20a41bcp-10,
      0x1.2b07dd69e405bp-10};
  /// the same with P(1/x), x >= 4; 2^-57.4
  static constexpr double k0_far[] = {0x1.0000000000000p+0,   -0x1.ffffffffffbecp-4,  0x1.1fffffff90f8ap-4,
                                      -0x1.2bffffb47271fp-4,  0x1.cb5fe49b600d8p-4,   -0x1.d11af12f09e06p-3,
                                      0x1.25018e3b4f789p-1,   -0x1.b8bb353f7d72ep+0,  0x1.7cc94f94da2a7p+2,
                                      -0x1.6717b9b93e819p+4,  0x1.5870126c39cc4p+6,   -0x1.364446b52cc5ep+8,
                                      0x1.e724b015e5ce5p+9,   -0x1.381c25a299028p+11, 0x1.324b732966d91p+12,
                                      -0x1.aa42b6588af30p+12, 0x1.73900521559e5p+12,  -0x1.2f8b81b9c2433p+11};
  /// K1(x) = e^-x P(1/x - 5/8) sqrt(pi / (2x)), 1 <= x <= 4; 2^-58.6
  static constexpr double k1_middle[] = {
      0x1.33f0fcc89125fp+0,   0x1.2717d528a0dbcp-2,  -0x1.68bd6069e4d42p-5,  0x1.f8b503a529d59p-7,
      -0x1.e26a7d858c3afp-8,  0x1.136c25ef32530p-8,  -0x1.6213a829be0b5p-9,  0x1.f02c225c182fbp-10,
      -0x1.73751be6fa97cp-10, 0x1.25333ae2a252bp-10, -0x1.e3737461a8dfap-11, 0x1.9da619fd4b1b0p-11,
      -0x1.6d04d6b9cb3ccp-11, 0x1.47b3a5c5febf8p-11, -0x1.2fdb1b152241ep-11, 0x1.3debcd278d240p-11,
      -0x1.35f39e21efa46p-11, 0x1.1213333c67af3p-12, -0x1.fdf691cd70e74p-13, 0x1.49185d8c01ad9p-10,
      -0x1.5887b6dbe74a1p-10};
  /// the same with P(1/x), x >= 4; 2^-57.3
  static constexpr double k1_far[] = {0x1.0000000000000p+0,   0x1.7fffffffffee4p-2,   -0x1.dfffffff872b8p-4,
                                      0x1.a3ffffadc942ep-4,   -0x1.274ff1192c935p-3,  0x1.1c3b563f9b663p-2,
                                      -0x1.5a4a6d78343b8p-1,  0x1.fca412f84fcbcp+0,   -0x1.afee8281cf8d1p+2,
                                      0x1.9256143a170edp+4,   -0x1.7eb3c7604b306p+6,  0x1.56de8497fd588p+8,
                                      -0x1.0c3c5f92e8f9ap+10, 0x1.56f2acc852916p+11,  -0x1.500f65733bfc8p+12,
                                      0x1.d3356a2c01178p+12,  -0x1.96f6219079c39p+12, 0x1.4c49717a65c9ep+11};
  /// J0(x) = P(x - middle) on [0, 2], [2, 4], ... [6, 8]; 2^-61.7
  static constexpr double j0[4][16] = {
      {0x1.87c7fdbd7b8f0p-1, -0x1.c29c9ee970c6cp-2, -0x1.4cf35c9186572p-3, 0x1.bbef26175dc99p-5,
       0x1.39c35b951bc4dp-7, -0x1.25bf4e848fc60p-9, -0x1.0e7c09d33517cp-12, 0x1.85e7b15fb4110p-15,
       0x1.097ab64930042p-18, -0x1.36fd686f44526p-21, -0x1.4f91b63c35cb4p-25, 0x1.4b0338a65bf5bp-28,
       0x1.27908879f8d80p-32, -0x1.f78a6e95cc524p-36, -0x1.798ee9d541560p-40, 0x1.1b720ce27cd2cp-43},
      {-0x1.0a4b0f4642392p-2, -0x1.5b324589238d0p-2, 0x1.7e067bc94e12bp-3, 0x1.e367eaf0f26cep-6,
       -0x1.ba7379276c45ep-7, -0x1.01d105d5d69dbp-10, 0x1.9ea7be82f6303p-12, 0x1.273159767cc87p-16,
       -0x1.a96b885886a95p-18, -0x1.a6b88ca6802ecp-23, 0x1.14444b215de76p-24, 0x1.9e5a73e365671p-30,
       -0x1.ef9c2e1f3dde5p-32, -0x1.2752944bef4dep-37, 0x1.40a6982fd0afep-39, 0x1.3b9b93da91106p-45},
      {-0x1.6bb7db255cb89p-3, 0x1.4f70e7cb3a99dp-2, 0x1.cb156341bdc30p-5, -0x1.cbf85845f4ac5p-5,
       -0x1.bf94d78f6ed18p-10, 0x1.4a5447fb7b023p-9, 0x1.77e24a9b8d7f0p-17, -0x1.c343e732ff702p-15,
       0x1.ca1f717ad9278p-23, 0x1.6c0ec51548234p-21, -0x1.4fbe6a648637bp-28, -0x1.853d96764e824p-28,
       0x1.a638b37548f95p-35, 0x1.287b40d04a37ap-35, -0x1.4b77150340d3dp-42, -0x1.4dc7a0be20afep-43},
      {0x1.3347faf45b2a3p-2, 0x1.32e4bdb5a9680p-8, -0x1.33f759179e666p-3, 0x1.a32d40bb7272bp-8,
       0x1.8256c6008f04dp-7, -0x1.36fb1b8e86cc3p-11, -0x1.71fd3588e43e8p-12, 0x1.2101a5ee5cf4cp-16,
       0x1.7be2e0d77bb15p-18, -0x1.1500cb1b2be37p-22, -0x1.ea3d6989c96e4p-25, 0x1.4a9ced9600a67p-29,
       0x1.b3f43c506c8f2p-32, -0x1.0fbffa1fd3418p-36, -0x1.17930ea2ba28ep-39, 0x1.43459f2ef75cdp-44}};
  /// J1(x) = x P(x - middle) on the same; 2^-60.7
  static constexpr double j1[4][15] = {
      {0x1.c29c9ee970c6cp-2, -0x1.d6a5095fa9be6p-4, -0x1.86835f86c5dfep-5, 0x1.33000fc6a825ap-7,
       0x1.e17892f85c79ap-10, -0x1.2efa10edcac79p-12, -0x1.3185522f7bbfep-15, 0x1.4054deaadc961p-18,
       0x1.d8836cf06e9e4p-22, -0x1.a86996132c228p-25, -0x1.ebad4bb6d8f42p-29, 0x1.8225ef2386d76p-32,
       0x1.6f92c6e63a7e6p-36, -0x1.f975b76c47239p-40, -0x1.98a0fd25f0f99p-44},
      {0x1.ceedb20c2f66ap-4, -0x1.4bd69add91484p-3, 0x1.917f075de653ep-6, 0x1.4245474b4c446p-7,
       -0x1.adb1b46465b18p-10, -0x1.00628c803ed17p-12, 0x1.534d38f66d9ecp-15, 0x1.cb4c528891ebbp-19,
       -0x1.275b59e6384d6p-21, -0x1.0a8b146561408p-25, 0x1.4af54e5a0cc21p-28, 0x1.b3214f357ce83p-33,
       -0x1.043e97341d21ap-35, -0x1.045048de54b36p-40, 0x1.2bfcda592ae08p-43},
      {-0x1.0c5a5308fbae4p-4, -0x1.312b4d279cee3p-7, 0x1.233d926bf4401p-5, -0x1.7877f25cd6facp-8,
       -0x1.677bce1316d05p-10, 0x1.117dc20fcd1c7p-12, 0x1.845ee728fb351p-16, -0x1.4d9a4b5c40e1bp-18,
       -0x1.e62875654145ap-23, 0x1.d8dcb8f2e33ddp-25, 0x1.8effa8597a934p-30, -0x1.bdd5e33348c57p-32,
       -0x1.cc0a18afa7b69p-38, 0x1.29a095cb3b8dap-39, 0x1.8082875bc5bf2p-46},
      {-0x1.5ebc46867876ep-11, 0x1.60be88434b031p-5, -0x1.23644973311a5p-7, -0x1.66468428dead5p-8,
       0x1.3bcb1e811d17ep-10, 0x1.115c38e9912f7p-13, -0x1.2cb585c5c855ap-15, -0x1.69f3e9e5968eep-20,
       0x1.197d0e87b0024p-21, 0x1.c7871e72b9cf8p-28, -0x1.44d7bced43d39p-28, -0x1.3d13343a283f9p-38,
       0x1.01ff644860e7fp-35, -0x1.53836e2f5d405p-43, -0x1.298c27195c96fp-43}};
  /// Y0(x) = 2/pi ((log(x/2) + gamma) J0(x) + P(z)), x <= 2, z = x^2 / 4; 2^-61.1
  static constexpr double y0_near[] = {0x1.dff48afca7683p-62,  0x1.fffffffffffffp-1,  -0x1.7ffffffffffd0p-2,
                                       0x1.a12f684bd8dd7p-5,   -0x1.da12f6843fcabp-9, 0x1.4c88d61740124p-13,
                                       -0x1.3d2968610cde7p-18, 0x1.b66537dfed05bp-24, -0x1.cae9d48570e37p-30,
                                       0x1.66d89a32206e8p-36};
  /// Y1(x) = 2/pi ((log(x/2) + gamma) J1(x) - 1/x - x/2 P(z)), x <= 2; 2^-64.5
  static constexpr double y1_near[] = {0x1.0000000000000p-1,  -0x1.4000000000000p-1,  0x1.1c71c71c71c69p-3,
                                       -0x1.bda12f684b676p-7, 0x1.8d76b54903cf0p-11,  -0x1.cb8fa34646fffp-16,
                                       0x1.7509ccc647f60p-21, -0x1.c0f74d87123e1p-27, 0x1.a05db398ee964p-33,
                                       -0x1.25908a4ee2701p-39};
  /// Y0(x) = P(x - middle) on [2, 4], [4, 6], [6, 8]; 2^-57.1
  static constexpr double y0[3][21] = {
      {0x1.81e4f8120242ap-2,   -0x1.4c7773d150464p-2, -0x1.13127c21922b3p-3,  0x1.0224f7ebcb70ap-4,
       0x1.24000057585e5p-8,   -0x1.135aa20ced6e3p-9, -0x1.161ce77d3f0e0p-12, 0x1.7b51c54c8480cp-14,
       -0x1.3291e387bdf86p-17, 0x1.678feac3c0d21p-19, -0x1.16663c458e9bdp-20, 0x1.550fcaf5a49e1p-22,
       -0x1.9c2a380c63ce1p-24, 0x1.fd63c52dbf104p-26, -0x1.3d30b241b7277p-27, 0x1.966a39f7d4134p-29,
       -0x1.fdc37151457a1p-31, 0x1.ffbdc3c505545p-33, -0x1.4210b058a2489p-34, 0x1.b21581cd334f8p-35,
       -0x1.13fdc4ce3cd79p-36},
      {-0x1.3bec0b5abc9abp-2,  -0x1.2ed2df29314fbp-3,  0x1.5a3454dedb22bp-3,   0x1.95f1aa26681e9p-7,
       -0x1.b9be97b4fbfb7p-7,  -0x1.40b0bbc144888p-13, 0x1.9b51235ae1d3bp-12,  0x1.3d4b2792472d6p-21,
       -0x1.b85df253f302bp-18, 0x1.27451d6475b53p-24,  0x1.fcb890ec64493p-25,  0x1.27d1361fe3579p-31,
       -0x1.6626756e3f902p-31, 0x1.67b6ae3f601fbp-35,  -0x1.4427a4f188799p-38, 0x1.6a2cde75349c3p-40,
       -0x1.206543c4ced31p-42, 0x1.9e4344df0ffb2p-45,  -0x1.390e99fffbb63p-47, 0x1.27b8b156e08adp-49,
       -0x1.c3b3b4411dcf9p-52},
      {-0x1.a9291d6b706dbp-6, 0x1.35ee66725bb42p-2,  -0x1.1b40f150cee4fp-7,  -0x1.916fa40609572p-5,
       0x1.36515fcc5b861p-9,  0x1.25c6e590b2777p-9,  -0x1.d76aa25673f1cp-14, -0x1.8fc36a422c0c8p-15,
       0x1.2d7d80c8d29a2p-19, 0x1.41ee9fa9c103ap-21, -0x1.c5c23ca785a83p-26, -0x1.535d5252bef2bp-28,
       0x1.b303b218dd70ep-33, 0x1.05bf0297676a5p-35, -0x1.45f2ea165a1b2p-40, -0x1.126e40ee28baep-43,
       0x1.eef90a2f16af4p-49, 0x1.564865d75b18bp-51, -0x1.3da9de2ca142ap-55, 0x1.098b520521a5ap-59,
       -0x1.bb7bb6a401543p-62}};
  /// Y1(x) = P(x - middle) on the same; 2^-59.3
  static constexpr double y1[3][23] = {
      {0x1.4c7773d150462p-2,   0x1.13127c21922b4p-2,  -0x1.833773e1b0f77p-3,  -0x1.24000057592cbp-6,
       0x1.58314a8fb9d8cp-7,   0x1.a12b5b3d70200p-10, -0x1.4be78c4369d45p-11, 0x1.3291e242ba843p-14,
       -0x1.94823ae81d595p-16, 0x1.5c000fb16bbb0p-17, -0x1.d4eb83332b40cp-19, 0x1.351755851e9dfp-20,
       -0x1.9ea2af67c10dep-22, 0x1.1629588e35a90p-23, -0x1.7447fd8638612p-25, 0x1.ef2029a038de7p-27,
       -0x1.4aeb3538b3144p-28, 0x1.d2b1976fe8c2bp-30, -0x1.37a8ada1fc177p-31, 0x1.165ef5b6b958ap-33,
       -0x1.73bb1f7af69ddp-35, 0x1.5882f0906db4ap-35, -0x1.cbb83a4a92289p-37},
      {0x1.2ed2df29314fbp-3,   -0x1.5a3454dedb22bp-2,  -0x1.30753f9cce16fp-5,  0x1.b9be97b4fbfb7p-5,
       0x1.90dceab195a3cp-11,  -0x1.347cda84295e6p-9,  -0x1.15a1c29fcef95p-18, 0x1.b85df253f1a4fp-15,
       -0x1.4c2dc11b5525fp-21, -0x1.3df35a916e0d0p-21, -0x1.96bf95e32a91ep-28, 0x1.0c9cd5ce519efp-27,
       -0x1.2445f9026a94ep-31, 0x1.1ba56599e4889p-34,  -0x1.534102a7d590bp-36, 0x1.20253373e1a00p-38,
       -0x1.c0371d1c831a1p-41, 0x1.6756548bf55f1p-43,  -0x1.21a5c6817c8d3p-45, 0x1.c3bdecfdbd12cp-48,
       -0x1.6a889e8ed4be4p-50, 0x1.7a413389ea53ap-52,  -0x1.2f538158fa7dep-54},
      {-0x1.35ee66725bb42p-2,  0x1.1b40f150cee4fp-6,  0x1.2d13bb0487016p-3,   -0x1.36515fcc5b861p-7,
       -0x1.6f389ef4df155p-7,  0x1.618ff9c0d6f55p-11, 0x1.5dcafcf9e68b2p-12,  -0x1.2d7d80c8d29a8p-16,
       -0x1.6a2c739ef9673p-18, 0x1.1b9965e8b42adp-22, 0x1.d2a051324c69dp-25,  -0x1.4642c593e32f2p-29,
       -0x1.a95664d7bebeap-32, 0x1.1d348e4eab9c4p-36, 0x1.0147d514cda73p-39,  -0x1.eefd6be346eb4p-45,
       -0x1.6c1823243e468p-47, 0x1.66598535e5df1p-51, -0x1.070f6deafd7c0p-55, 0x1.ec8ac3a6edcd8p-58,
       -0x1.4c18d373a4572p-60, 0x1.9e55a2cc833b8p-63, -0x1.d4bbbe051f55dp-66}};
  /// the modulus of J0 and Y0 in phase, in 1/x^2, x >= 8; 2^-57.8
  static constexpr double p0[] = {0x1.0000000000000p+0,   -0x1.1ffffffffe5fbp-4,  0x1.cb5fffe8ced26p-4,
                                  -0x1.251ed77e459fdp-1,  0x1.84b6e1ac85bdep+2,   -0x1.b75a457f865c8p+6,
                                  0x1.74be8a2fde700p+11,  -0x1.9f8175e09f1e0p+16, 0x1.fe16d5457b051p+21,
                                  -0x1.1d9db2333be9ep+27, 0x1.ed51b593c205cp+31,  -0x1.13ad48ecc8f38p+36,
                                  0x1.22b44c20d0316p+39};
  /// x times that out of phase; 2^-59.3
  static constexpr double q0[] = {-0x1.0000000000000p-3,  0x1.2bffffffff27ep-4,   -0x1.d11dfff7faba2p-3,
                                  0x1.ba4c51de0da16p+0,   -0x1.8614b6da853a9p+4,  0x1.1384537196f42p+9,
                                  -0x1.1b3f9c38ff0a0p+14, 0x1.832c520d332cep+19,  -0x1.376fc56197233p+25,
                                  0x1.fcd748439201ep+30,  -0x1.709cd627539fep+36, 0x1.a8447c656119ap+41,
                                  -0x1.5e3dbd9d23c93p+46, 0x1.69e637704b723p+50,  -0x1.5c372909e604fp+53};
  /// the modulus of J1 and Y1 in phase, in 1/x^2, x >= 8; 2^-57.7
  static constexpr double p1[] = {0x1.0000000000000p+0,   0x1.dffffffffe47ep-4,   -0x1.274ffff3bd687p-3,
                                  0x1.5a6a468cdbcffp-1,   -0x1.b88b7980b86cfp+2,  0x1.e5a2972c2dbc8p+6,
                                  -0x1.955f98cefc9bcp+11, 0x1.bf32407aeede0p+16,  -0x1.10cee152b48afp+22,
                                  0x1.3074e873ea25dp+27,  -0x1.066be6e626b36p+32, 0x1.24f56427a91cbp+36,
                                  -0x1.34b5237c76148p+39};
  /// x times that out of phase; 2^-59.2
  static constexpr double q1[] = {0x1.8000000000000p-2,   -0x1.a3ffffffff1cfp-4,  0x1.1c3cfffbc985fp-2,
                                  -0x1.fe58107b95b99p+0,  0x1.b3f929ffd8b99p+4,   -0x1.2dc37079e94f3p+9,
                                  0x1.31f84ad89d327p+14,  -0x1.9e42b106ecc89p+19, 0x1.4b2b7eb44802bp+25,
                                  -0x1.0d897bd70aca6p+31, 0x1.85ab5738d4d11p+36,  -0x1.bfed60d93d342p+41,
                                  0x1.717a40b175561p+46,  -0x1.7d9393a6e4800p+50, 0x1.6f044f2b7f8d2p+53};
  /// Ai(x) = P(x - middle) on [-9, -8] ... [1, 2]; 2^-60.6
  static constexpr double airy[11][18] = {
      {-0x1.52379aa33d405p-2, -0x1.08b600c36ac3cp-5, 0x1.675b144d71147p+0, -0x1.2fcbdf133f003p-7,
       -0x1.fe774f6eba2bcp-1, 0x1.2f9fb1b1601fbp-4, 0x1.20f298c78d7c9p-2, -0x1.3d5bcdcd60977p-5,
       -0x1.54057330795f0p-5, 0x1.1648f34cb6196p-7, 0x1.c964043133e0ap-9, -0x1.0ef22b7299704p-10,
       -0x1.5054927b4b9f3p-13, 0x1.4a081b781dafap-14, 0x1.e8e19bf9450abp-20, -0x1.08e5eed2a481ep-18,
       0x1.035ad211945e3p-22, 0x1.11572ecdad502p-23},
      {0x1.497f92ca01e61p-2, 0x1.4675ffd3b25d9p-2, -0x1.34e7999d61c7bp+0, -0x1.6128e7519ea3fp-2,
       0x1.8fbbc002e1b1fp-1, 0x1.1a9dace2ec920p-4, -0x1.a74702a1f2818p-3, 0x1.9ac2d51ed1145p-8,
       0x1.d9b2c60ae070dp-6, -0x1.cdd26081044bcp-9, -0x1.32abbf51b74a2p-9, 0x1.07c12965003a2p-11,
       0x1.bda1a65c025eep-14, -0x1.48b3633a6fccep-15, -0x1.b285472f04b28p-20, 0x1.ff557a92f4b6ap-20,
       -0x1.ba2d5a66d818cp-24, -0x1.ed0ad2ff57135p-25},
      {-0x1.e7773026e4abdp-3, -0x1.59935f836551ap-1, 0x1.8c10d71f99cbap-1, 0x1.62100577643bfp-1,
       -0x1.e6aace4d7786dp-2, -0x1.7d1175ae7d272p-3, 0x1.0218f3ba07c33p-3, 0x1.1e66d56532f82p-6,
       -0x1.2619a9fe07887p-6, 0x1.69305a1c5e88fp-13, 0x1.86c3da6463cc3p-10, -0x1.6b9196c566789p-13,
       -0x1.2e679cf5ecd0ep-14, 0x1.1980a20a1e907p-16, 0x1.b3f8bb0992d24p-20, -0x1.cf05bc47921acp-21,
       0x1.7ea5f1fa37165p-26, 0x1.c0548abab412ep-26},
      {0x1.2355309057e0ap-6, 0x1.ba780ec73ea42p-1, -0x1.909522c678d50p-5, -0x1.941446a08e4bfp-1,
       0x1.82c78c7cfad15p-4, 0x1.b77ad6daee384p-3, -0x1.6553fb504428cp-5, -0x1.a792416bbe4f1p-6,
       0x1.09f1cdd5cf8fdp-7, 0x1.66e2c3d3569d9p-10, -0x1.9aa3478cd7166p-11, 0x1.65aa5854ad057p-18,
       0x1.68c31fab1cf51p-15, -0x1.5d8aaf10a0f0ep-18, -0x1.552404321013ap-20, 0x1.6e40215dc350fp-22,
       0x1.236da35e661a0p-27, -0x1.85843dd00a9b3p-27},
      {0x1.2b2a1940487e5p-2, -0x1.0bf62c807eea1p-1, -0x1.508f5c68518e1p-1, 0x1.c3cd9c4b751edp-2,
       0x1.9f84fbc6fab13p-3, -0x1.0e9f98d06b6abp-3, -0x1.01a9634f0fbfcp-6, 0x1.371c0846433a3p-6,
       -0x1.1f49dd9c468c7p-10, -0x1.705e1e588937dp-10, 0x1.16b0ee1d5b566p-12, 0x1.8ea6e39e9798bp-15,
       -0x1.4a9dbafea96dbp-16, 0x1.6565ef54f5cd2p-22, 0x1.91cf188ed3177p-21, -0x1.b17524385ca02p-24,
       -0x1.b7b429bbb743fp-27, 0x1.288af8dc1346cp-28},
      {-0x1.808bf043b852cp-2, -0x1.5fafa2aad827cp-2, 0x1.507a723b41486p-1, 0x1.1a1e43061412dp-3,
       -0x1.c32c20619adb6p-3, 0x1.1eccb1dfcbe8ep-7, 0x1.f053634ba74e4p-6, -0x1.878ce0fbdbdf0p-8,
       -0x1.c75ab799d9b20p-10, 0x1.74dbd8f5e4fb5p-11, 0x1.39555b18ffb18p-20, -0x1.424926962fbdep-15,
       0x1.677b830203c85p-18, 0x1.d2c9fb61c1ca8p-21, -0x1.513d0f793c4f4p-22, 0x1.79e162f336bb1p-27,
       0x1.179030396e3eap-27, -0x1.58f8b82682c7ep-30},
      {-0x1.cc155ec43247dp-4, 0x1.5b9295e8ef584p-1, 0x1.1f8d5b3a9f6cep-3, -0x1.34d060df9ee1ep-2,
       0x1.bf9b4d0b748d5p-6, 0x1.6e530cb8252abp-5, -0x1.9400afe7e83afp-7, -0x1.079f3a640cb01p-9,
       0x1.619d6aaa30c9dp-10, -0x1.a9504d2e6baf1p-14, -0x1.f5c9f50a4f4d6p-15, 0x1.e8cf1642abed5p-17,
       0x1.879d859ab386fp-22, -0x1.4b32d2034b224p-21, 0x1.4221a0c42d13ap-24, 0x1.3836e7d9424e3p-27,
       -0x1.c3dcef89941a8p-29, 0x1.8bac244ddd278p-33},
      {0x1.db661389897f8p-2, 0x1.3c9b8221ef635p-2, -0x1.648c8ea7271fap-2, 0x1.4cd63c5bc6a34p-14,
       0x1.1bcf72b438b0bp-4, -0x1.1d563563d961cp-6, -0x1.c5bff5dd0de69p-9, 0x1.29c2e08d75671p-9,
       -0x1.c9bbec193a640p-13, -0x1.902c9132198d6p-14, 0x1.e4838ce12756ep-16, -0x1.6ec94e992faa4p-21,
       -0x1.1a1e3bf40c283p-20, 0x1.9ba855c4153e3p-23, 0x1.5229136dd4800p-28, -0x1.b61406d20d208p-28,
       0x1.971f7136f717dp-31, 0x1.e763beea3fd8ep-35},
      {0x1.e72543cd05e5dp-2, -0x1.a1f5921e923f0p-3, -0x1.e72543cd05e5dp-4, 0x1.8a6c703871a3bp-4,
       -0x1.8ae5ac39c1070p-7, -0x1.11be31907f7cbp-7, 0x1.bf0b832efd49dp-9, -0x1.892e978863956p-13,
       -0x1.78b66ff4a8a86p-13, 0x1.984b870a08e1ap-15, -0x1.234ec2bd7395bp-20, -0x1.f1beb1e4a915bp-20,
       0x1.90564691901b8p-22, -0x1.168b403c059b2p-30, -0x1.815c06d80c006p-27, 0x1.e8ac40f3f4a40p-30,
       0x1.c1695f4fbac1ap-36, -0x1.860e654c67a37p-35},
      {0x1.da822d7438440p-3, -0x1.cc9de4b290e91p-3, 0x1.da822d7438440p-5, 0x1.4599a423ea6a0p-6,
       -0x1.0b8914ad5beb1p-6, 0x1.bcba11fdc24b9p-9, 0x1.993e14e9098b5p-12, -0x1.6d517320c29ffp-12,
       0x1.0cbed42b99bd1p-14, 0x1.92d0a263e783bp-19, -0x1.d7c9618e0cacap-19, 0x1.400bbd7b03294p-21,
       0x1.43b9f0f19c39dp-27, -0x1.6248427eac425p-26, 0x1.c5bd7e0f3481dp-29, -0x1.220bda14c7e0ep-38,
       -0x1.5c41c8fa89639p-34, 0x1.a24e6fe45f9fap-37},
      {0x1.25e2ccf277dc1p-4, -0x1.8ee0710605791p-4, 0x1.b8d4336bb3ca1p-5, -0x1.95e7d0c8c0777p-7,
       -0x1.6c06e2714e086p-10, 0x1.cdc86e9a45c88p-10, -0x1.f9c5726443292p-12, 0x1.f4cbd483346d2p-16,
       0x1.36fe28ce4ce4dp-16, -0x1.97d7694e127c2p-18, 0x1.57ec785858076p-21, 0x1.6fd4aa4abf85ap-24,
       -0x1.4cf393f392abap-25, 0x1.52c8a160e2b0ep-28, 0x1.4cbb8665ca11ep-33, -0x1.48848ed7f2be5p-33,
       0x1.72611a7b7c07ep-36, -0x1.c0c8235f6bebdp-43}};
  /// Airy's function right of 2, in 1/zeta; 2^-58.4
  static constexpr double airy_right_value[] = {
      0x1.0000000000000p+0,  -0x1.1c71c71c71a84p-4,  0x1.3032916199efdp-5,  -0x1.373d3811efe8ep-5,
      0x1.d843095d1f24bp-5,  -0x1.db8897d743e3ap-4,  0x1.2a83c5561dce9p-2,  -0x1.c05fc3e4e9862p-1,
      0x1.85301724ac746p+1,  -0x1.773964fde8f1dp+3,  0x1.7da64514b851ap+5,  -0x1.8264c6f10b641p+7,
      0x1.711f5d30b9510p+9,  -0x1.3f15dc12e6f32p+11, 0x1.e456b57feeb69p+12, -0x1.3bbfc96ed2442p+14,
      0x1.5b998d69e8495p+15, -0x1.3e1982191076cp+16, 0x1.dc0abef66380fp+16, -0x1.1d7b26d76f0d2p+17,
      0x1.0b2ccb99b23a2p+17, -0x1.774b007e6e4b3p+16, 0x1.73a65cb3cee97p+15, -0x1.ce43e0177204dp+13,
      0x1.0f652afb814a4p+11};
  /// left of -9, in 1/zeta^2; 2^-61.2
  static constexpr double airy_even_value[] = {
      0x1.0000000000000p+0, -0x1.30329161f91cbp-5, 0x1.d8431d5fa6690p-5,  -0x1.2a96dc14c24b8p-2,
      0x1.8a1f20c53604dp+1, -0x1.bacee0a72ea1ap+5, 0x1.6361c93b90e62p+10, -0x1.0a9b61159d89bp+15};
  /// the same, times zeta; 2^-58.3
  static constexpr double airy_odd_value[] = {
      0x1.1c71c71c71c72p-4, -0x1.373d384db557ep-5, 0x1.db8ab0f941bf8p-4,  -0x1.c15d488525a20p-1,
      0x1.8ad7296a0e9bbp+3, -0x1.146fd20112f99p+8, 0x1.0577288c0773bp+13, -0x1.b1e48b36b3e84p+17};
  /// Airy's function right of 2, in 1/zeta; 2^-58.3
  static constexpr double airy_right_slope[] = {
      0x1.0000000000000p+0,   0x1.8e38e38e38c3ep-4,  -0x1.6781948aad7bap-5,  0x1.5bdb0273d3aeep-5,
      -0x1.00aa00208a7a8p-4,  0x1.fc544f0fc2b25p-4,  -0x1.3b9332f69d11ep-2,  0x1.d6449ec17c6f9p-1,
      -0x1.95d468929cf7fp+1,  0x1.859cc143f974dp+3,  -0x1.8b192bf15cc97p+5,  0x1.8f328a086ff37p+7,
      -0x1.7cd726d6de425p+9,  0x1.48ebb72bf1c77p+11, -0x1.f2f76e0c4419ap+12, 0x1.4526296be9474p+14,
      -0x1.65d737b417bb8p+15, 0x1.47662f50f1afcp+16, -0x1.e9e08b2e56fb0p+16, 0x1.25bd6fd16d28dp+17,
      -0x1.12e04f0191d95p+17, 0x1.82142fccfa689p+16, -0x1.7e4e2469726cap+15, 0x1.db7decd78518cp+13,
      -0x1.1725c0324362bp+11};
  /// left of -9, in 1/zeta^2; 2^-61.2
  static constexpr double airy_even_slope[] = {
      0x1.0000000000000p+0,  0x1.6781948b0f390p-5, -0x1.00aa0a668f0c3p-4,  0x1.3ba6cc12a1f67p-2,
      -0x1.9ae4c921ef03cp+1, 0x1.c9d7ed524dac8p+5, -0x1.6d8eab80f0932p+10, 0x1.1177f53c6d110p+15};
  /// the same, times zeta; 2^-58.3
  static constexpr double airy_odd_slope[] = {
      -0x1.8e38e38e38e39p-4, 0x1.5bdb02b1347e3p-5, -0x1.fc56769188536p-4,  0x1.d748dda5e4639p-1,
      -0x1.99bdd945cd839p+3, 0x1.1cf646b983ab5p+8, -0x1.0c632e43bd718p+13, 0x1.bc58661d4859dp+17};
  /// erfinv(x) = x P(w - middle), w = -log(1 - x^2) = 3, w <= 6; 2^-56.1
  static constexpr double erfinv_near[] = {
      0x1.9fa072ed72dbbp+0,   0x1.eedbebdce73e6p-3,   -0x1.780def1d3f3ffp-8,  -0x1.b6666b152b661p-11,
      0x1.9912c04a501f2p-13,  -0x1.aab13d1c2749ep-17, -0x1.d539ca175ac91p-20, 0x1.e32b0d49a4fdfp-22,
      -0x1.96f81eb1e4c7fp-26, -0x1.77b3a13c70ca6p-28, 0x1.31556b71e4d10p-30,  -0x1.146c0ceeb112fp-35,
      -0x1.30d8ccf28c4eap-36, 0x1.7bd8787070135p-39,  0x1.be17c2f60be00p-48,  -0x1.dcbfa03933bc4p-45,
      0x1.c8c5f47132742p-48,  0x1.3bf80cf783e3dp-52,  -0x1.76cf01ba6594bp-53, 0x1.dafb4fe02a26cp-57,
      0x1.2d37ac45dfdd5p-59,  -0x1.ce564b0e47e8ep-62, -0x1.81ab51d514e6cp-67, 0x1.47a851c2cf954p-68};
  /// erfinv(x) = x P(s - 3.34375), s = sqrt(w) from 2.4375 to 4.25; 2^-56.3
  static constexpr double erfinv_middle[] = {
      0x1.96ce5ee639266p+1,   0x1.0194aa5a2fcd4p+0,   0x1.229d16ad313cdp-8,   -0x1.82bba229a7c0cp-9,
      0x1.dbf8ba6807914p-10,  -0x1.3ebce5c2dd43bp-10, 0x1.7ed75ae220f92p-11,  -0x1.4f49f3d9ed3c8p-12,
      0x1.0f653ed331d28p-14,  0x1.fc0da76931114p-16,  -0x1.19c8d615bac53p-15, 0x1.c3d86df0ba761p-17,
      -0x1.a2cd32b40e031p-21, -0x1.21559783ecb5cp-19, 0x1.50b20197fc14ap-20,  -0x1.15efd6ac297cdp-22,
      -0x1.5333ba0fe42a0p-24, 0x1.603ad4681ce6dp-24,  -0x1.ef4282f5b9c8cp-26, 0x1.3c8d2add01067p-33,
      0x1.3837a12acfc03p-28,  -0x1.85ab5e0be3352p-30};
  /// erfinv(x) = x P(s - 5.25), s from 4.25 to 6.25; 2^-56.8
  static constexpr double erfinv_far[] = {
      0x1.468edd59fe0cfp+2,  0x1.029c26b0fe07bp+0,   -0x1.1fa5ef8c7a87dp-12, -0x1.3aab557cb4b1ep-13,
      0x1.ce9efd01145d6p-15, -0x1.d689ca815d86cp-17, 0x1.a2992090677b1p-19,  -0x1.5b8b213c21d53p-21,
      0x1.192514c0d4d6ep-23, -0x1.e391fcb2cf6edp-26, 0x1.0ca4654e4d985p-27,  -0x1.ba770241ec16ep-29,
      0x1.c152d415a6c5cp-30, -0x1.bb8a248dee2c9p-31, 0x1.92959bebc5573p-32,  -0x1.5b18c2897a8b0p-33,
      0x1.b7d98ab5fe55cp-35, -0x1.915a781f61892p-39, -0x1.65023c8ed855ep-39};
  /// erfinv(x) = x (s + P(1/s - 0.1)), s from 6.1 to 27.7; 2^-55.3
  static constexpr double erfinv_tail[] = {
      -0x1.c010a3637b5a3p-4, -0x1.31a4f2248e41dp-1,  0x1.3c5b1cd247f4ap+1,   -0x1.0ab980f344395p+3,
      0x1.4a8c108b3fd49p+5,  -0x1.f47a10ec9e8e5p+7,  0x1.a19b60b4e9131p+10,  -0x1.74aed5cbed85ep+13,
      0x1.5d43646e87016p+16, -0x1.5376d59d4123ap+19, 0x1.53655f3543656p+22,  -0x1.5b5d6668964d9p+25,
      0x1.69d6305fb16b6p+28, -0x1.7941d403efcfap+31, 0x1.939d49b50ff08p+34,  -0x1.f74d8ffa0ad6ap+37,
      0x1.15dbe657d1739p+41, -0x1.542b94ce18c6bp+40, 0x1.8d836a73b5935p+41,  -0x1.b85ab043a2af9p+52,
      0x1.01cc6fa035cf9p+56, 0x1.4be9d114028a3p+60,  -0x1.8945251ba90d8p+63, -0x1.ef5288cd5a0f7p+67,
      0x1.2428fe9386d62p+71, 0x1.7965e3dbd6a09p+74,  -0x1.bdbc687f46ee7p+77, -0x1.40ea751d7c175p+80,
      0x1.7a1d3dd1c512fp+83};
};

}  // namespace adjoint::inline ADJOINT_ISA::math::coefficients
