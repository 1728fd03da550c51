// The polynomials of this folder, lowest power first: written by coefficients.py, which says how they are
// found. The comment gives the formula and the largest relative error of the function, before rounding.
#pragma once

#include "bits.h"

namespace adjoint::inline ADJOINT_ISA::math::coefficients {

template <class T>
struct Polynomials;

/// The first 1280 bits of 2/pi after the point.
constexpr std::uint64_t two_over_pi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};

template <>
struct Polynomials<float> {
  /// e^r = 1 + r + r^2 P(r); 2^-26.1
  static constexpr float exp[] = {0x1.000000p-1f, 0x1.5554aep-3f, 0x1.555484p-5f, 0x1.122966p-7f,
                                  0x1.6d9b7cp-10f};
  /// log(1+f) = f - f^2/2 + f^3 P(f); 2^-27.3
  static constexpr float log[] = {0x1.555554p-2f, -0x1.000228p-2f, 0x1.99a010p-3f, -0x1.547202p-3f,
                                  0x1.22d910p-3f, -0x1.0d86ecp-3f, 0x1.05646cp-3f, -0x1.38c3eep-4f};
  /// sin r = r + r^3 P(z), z = r^2; 2^-27.8
  static constexpr float sin[] = {-0x1.555544p-3f, 0x1.11067ap-7f, -0x1.990262p-13f};
  /// cos r = 1 - z/2 + z^2 P(z), z = r^2; 2^-32.7
  static constexpr float cos[] = {0x1.555548p-5f, -0x1.6c0b64p-10f, 0x1.99afecp-16f};
  /// tanh x = x + x^3 P(z), z = x^2, |x| < 0.55; 2^-29.5
  static constexpr float tanh[] = {-0x1.555548p-2f, 0x1.110c98p-3f, -0x1.b90fc4p-5f, 0x1.5866b8p-6f,
                                   -0x1.963e0cp-8f};
  /// sinh x = x + x^3 P(z), z = x^2, |x| < 1; 2^-34.2
  static constexpr float sinh[] = {0x1.555556p-3f, 0x1.111134p-7f, 0x1.9ffe92p-13f, 0x1.7a15a2p-19f};
  /// atan x = x + x^3 P(z), z = x^2, |x| <= 1; 2^-28.5
  static constexpr float atan[] = {-0x1.55553ep-2f, 0x1.9991fep-3f,  -0x1.2421bap-3f,
                                   0x1.c09a38p-4f,  -0x1.58352cp-4f, 0x1.dacbd4p-5f,
                                   -0x1.fed500p-6f, 0x1.65aa0ap-7f,  -0x1.d63634p-10f};
  /// asin x = x + x^3 P(z), z = x^2, |x| <= 1/2; 2^-27.6
  static constexpr float asin[] = {0x1.5555c8p-3f, 0x1.3301e6p-4f, 0x1.747e18p-5f, 0x1.8c2a1ep-6f,
                                   0x1.596b96p-5f};
  /// atanh x = x + x^3 P(z), z = x^2, |x| <= 1/2; 2^-29.4
  static constexpr float atanh[] = {0x1.555540p-2f, 0x1.99a6cep-3f, 0x1.23483cp-3f,
                                    0x1.e44cc8p-4f, 0x1.a4ba88p-5f, 0x1.69dcc8p-3f};
  /// erf x = x + x P(z), z = x^2, |x| <= 1; 2^-29.6
  static constexpr float erf[] = {0x1.06eba8p-3f, -0x1.81273ep-2f,  0x1.ce2cf8p-4f, -0x1.b7f90cp-6f,
                                  0x1.5405b2p-8f, -0x1.a3f708p-11f, 0x1.496a5ep-14f};
  /// log2 erfc x = P(x), 1 <= x <= 4; 2^-29.3
  static constexpr float erfc_log[] = {-0x1.0be5b4p-11f, -0x1.a03fbap+0f, -0x1.d76f1cp-1f, -0x1.306e20p-3f,
                                       0x1.01b120p-5f,   -0x1.15e77ap-8f, 0x1.18ae50p-12f};
  /// e^(x^2) erfc x = P(t)/(1+2x), t = (x-3)/(x+3), x >= 1/2; 2^-27.1
  static constexpr float erfcx[] = {0x1.40c522p+0f,  -0x1.15c080p-3f, -0x1.859fb4p-5f, 0x1.0982b6p-3f,
                                    -0x1.e897f4p-4f, 0x1.17d928p-4f,  -0x1.846f22p-6f, 0x1.42b132p-9f,
                                    0x1.cbbed4p-10f, -0x1.4c97c2p-11f};
};

template <>
struct Polynomials<double> {
  /// e^r = 1 + r + r^2 P(r); 2^-55.6
  static constexpr double exp[] = {0x1.0000000000005p-1,  0x1.555555555555cp-3,  0x1.5555555551fdep-5,
                                   0x1.111111110e644p-7,  0x1.6c16c17f831efp-10, 0x1.a01a01b613beap-13,
                                   0x1.a019a596474e0p-16, 0x1.71dde96c3b04ep-19, 0x1.28a3a451ff06ep-22,
                                   0x1.af77b9dc95059p-26};
  /// log((1+s)/(1-s)) = 2s + s z P(z), z = s^2; 2^-59.5
  static constexpr double log_ratio[] = {0x1.5555555555593p-1, 0x1.999999997fcabp-2, 0x1.2492494200f7bp-2,
                                         0x1.c71c51fbb9337p-3, 0x1.746641dd1f8f5p-3, 0x1.39a16a79d6e49p-3,
                                         0x1.2f08b32e9d5dcp-3};
  /// log((1+s)/(1-s)) = 2s + s z (2/3 + z P(z)), z = s^2; 2^-73.5
  static constexpr double log_tail[] = {0x1.9999999999996p-2, 0x1.249249249303cp-2, 0x1.c71c71c57f849p-3,
                                        0x1.745d1832c000cp-3, 0x1.3b136298e42dcp-3, 0x1.1120ba04e687ep-3,
                                        0x1.de32be2689a6dp-4, 0x1.eb16f3d78bd24p-4};
  /// cbrt m = P(m), 0.7 <= m <= 5.7; 2^-10.5
  static constexpr double cube_root[] = {0x1.0bcf3bc1203bep-1, 0x1.53686b7927b50p-1,  -0x1.eae81e4137e1ap-3,
                                         0x1.f330531eae97ep-5, -0x1.0d866d9fddfbdp-7, 0x1.d1ab392ba24cdp-12};
  /// sin r = r + r^3 P(z), z = r^2; 2^-57.6
  static constexpr double sin[] = {-0x1.5555555555545p-3, 0x1.111111110f2afp-7,   -0x1.a01a019b5672ep-13,
                                   0x1.71de34d430d82p-19, -0x1.ae5de56ebbb20p-26, 0x1.5d6d7e53791ebp-33};
  /// cos r = 1 - z/2 + z^2 P(z), z = r^2; 2^-63.5
  static constexpr double cos[] = {0x1.5555555555548p-5,   -0x1.6c16c16c149b7p-10, 0x1.a01a019bf0cbbp-16,
                                   -0x1.27e4f77f72c43p-22, 0x1.1ee98e57b5c35p-29,  -0x1.8f7e71ea9b982p-37};
  /// sinh x = x + x^3 P(z), z = x^2, |x| < 1; 2^-63.3
  static constexpr double sinh[] = {0x1.5555555555556p-3,  0x1.11111111110a6p-7,  0x1.a01a01a028995p-13,
                                    0x1.71de3a465b7d8p-19, 0x1.ae64671ad4caep-26, 0x1.611a5635a0050p-33,
                                    0x1.b4c7540021c13p-41};
  /// atan x = x + x^3 P(z), z = x^2, |x| <= 1; 2^-57.6
  static constexpr double atan[] = {
      -0x1.5555555555526p-2, 0x1.999999999554cp-3,  -0x1.249249237e2f8p-3,  0x1.c71c717f96859p-4,
      -0x1.745d11ab0cc38p-4, 0x1.3b136676de5f2p-4,  -0x1.110e50222016fp-4,  0x1.e1bb9b4a705aep-5,
      -0x1.ae5e44b644b55p-5, 0x1.82da44ffb3b66p-5,  -0x1.59a293ee72774p-5,  0x1.2c2b9cf79f91fp-5,
      -0x1.e9f1b78a83b54p-6, 0x1.6832f2c48e21ap-6,  -0x1.c77ded554c0e1p-7,  0x1.d7a0a92090e9ep-8,
      -0x1.7a21218583ec3p-9, 0x1.b3d92926d4a99p-11, -0x1.3f19e39889d90p-13, 0x1.bbc126fb0ca80p-17};
  /// asin x = x + x^3 P(z), z = x^2, |x| <= 1/2; 2^-59.9
  static constexpr double asin[] = {0x1.5555555555577p-3, 0x1.333333332e0f9p-4, 0x1.6db6db7214815p-5,
                                    0x1.f1c71a9448ca2p-6, 0x1.6e8bdef09a377p-6, 0x1.1c49ef56bcb54p-6,
                                    0x1.ca1fa3abb6823p-7, 0x1.7584e32bdc234p-7, 0x1.613fe924e188ep-7,
                                    0x1.e5c66661c11f9p-9, 0x1.63a9ced2f11c2p-6, -0x1.580f2d3e891eap-6,
                                    0x1.0b4bee9fd45e8p-5};
  /// asinh x = x + x^3 P(z), z = x^2, |x| <= 1/2; 2^-60.4
  static constexpr double asinh[] = {-0x1.5555555555541p-3, 0x1.333333333075ap-4,  -0x1.6db6db6ba651bp-5,
                                     0x1.f1c71ba9b00cap-6,  -0x1.6e8b8ca67fe52p-6, 0x1.1c4d2fa859ffep-6,
                                     -0x1.c972eb2a9e792p-7, 0x1.7941ed0a4a6dbp-7,  -0x1.386a3e6229cd1p-7,
                                     0x1.e94440fe78529p-8,  -0x1.372262e39d976p-8, 0x1.c26360479badcp-10};
  /// atanh x = x + x^3 P(z), z = x^2, |x| <= 1/2; 2^-61.0
  static constexpr double atanh[] = {0x1.555555555554cp-2,  0x1.999999999b31dp-3,  0x1.24924923ca1d0p-3,
                                     0x1.c71c722a2f04ep-4,  0x1.745d08c3fbfebp-4,  0x1.3b1510422de47p-4,
                                     0x1.10fa8408d761dp-4,  0x1.e3e98568e88b4p-5,  0x1.9e879f26296a4p-5,
                                     0x1.e70d62fed1e3cp-5,  -0x1.4456ac65f4b66p-8, 0x1.6478de37e37c4p-3,
                                     -0x1.8f3b10e90c4fap-3, 0x1.ec6282f3a1517p-3};
  /// erf x = x + x P(z), z = x^2, |x| <= 1; 2^-56.9
  static constexpr double erf[] = {0x1.06eba8214db68p-3,   -0x1.812746b0379bdp-2,  0x1.ce2f21a040d16p-4,
                                   -0x1.b82ce311fa946p-6,  0x1.565bccf92b4fep-8,   -0x1.c02db03ddc069p-11,
                                   0x1.f9a2baa962e23p-14,  -0x1.f4ca4d73d8b20p-17, 0x1.b97fd3f92ae2cp-20,
                                   -0x1.5c072765d6055p-23, 0x1.d71b108cca640p-27,  -0x1.abae493f2ead2p-31};
  /// e^(x^2) erfc x = P(t)/(1+2x), t = (x-3)/(x+3), x >= 1/2; 2^-59.9
  static constexpr double erfcx[] = {
      0x1.40c522d7e4987p+0,  -0x1.15c084bb9e8f3p-3,  -0x1.85a15c58aa5c9p-5,  0x1.098366a5b46edp-3,
      -0x1.e88b803a4941fp-4, 0x1.17ca2877f02f7p-4,   -0x1.8574c40bc4a36p-6,  0x1.4b884e462080fp-9,
      0x1.ef1bdd3ad904ap-10, -0x1.98db516661b8dp-11, -0x1.b9126b232f4d1p-14, 0x1.065a3f1537be3p-13,
      0x1.4c20b1eddbe9cp-18, -0x1.513c3711a7991p-16, -0x1.87c44de8bd063p-21, 0x1.d21684d7d1ac9p-19,
      0x1.79c9fde92b725p-22, -0x1.4accf8c3e2187p-21, -0x1.1d9609e64ce6ap-23, 0x1.add0faf033b70p-24,
      0x1.1bef25ef26c4dp-25, -0x1.7e9038113157ap-27, -0x1.0a9e15c734576p-28};
  /// psi(x) = (x - x0) P(x - 3/2), 1 <= x <= 2, x0 its zero; 2^-63.6
  static constexpr double digamma[] = {
      0x1.e6f0cbb873616p-1,  -0x1.b1cb63005ee96p-2,  0x1.eca189b8e6f6ap-3,  -0x1.2feeeb98a7e3cp-3,
      0x1.8512e590397cep-4,  -0x1.fb442029982bbp-5,  0x1.4de9aa1718d9cp-5,  -0x1.b9f8b1503a06ap-6,
      0x1.2564719cbda8ep-6,  -0x1.8635590a8f15dp-7,  0x1.03c0a62cc2e21p-7,  -0x1.5a080a461b960p-8,
      0x1.cd21fa22056b8p-9,  -0x1.33508c8c7ffe2p-9,  0x1.99ac060795baep-10, -0x1.1144b4d0d4882p-10,
      0x1.6c6222019177ep-11, -0x1.e17c5a11fc175p-12, 0x1.409075faba0acp-12, -0x1.cd834ea410051p-13,
      0x1.35e49698546f5p-13, -0x1.e37652f7c0952p-15, 0x1.34c566ab76301p-15, -0x1.604b00c94e7eep-14,
      0x1.debfce4437983p-15};
  /// log gamma(1+f) = f (f-1) P(f - 1/2), 0 <= f <= 1; 2^-59.5
  static constexpr double log_gamma[] = {
      0x1.eeb95b094c191p-2,  -0x1.2aed059bd608ap-3,  0x1.01af62a2929bfp-4,  -0x1.007aa83cee0f6p-5,
      0x1.133423527f3ffp-6,  -0x1.34dbda14a6931p-7,  0x1.64f0664c35329p-8,  -0x1.a50352290f71dp-9,
      0x1.f814babf5d949p-10, -0x1.313e8be0cce01p-10, 0x1.750a77bf02f01p-11, -0x1.cb44890957855p-12,
      0x1.1c7e510edff8ap-12, -0x1.62449490bd7bfp-13, 0x1.b9e22fc804e09p-14, -0x1.15317f81a622bp-14,
      0x1.68fefa836f0f7p-15, -0x1.cb36c2a9a1770p-16, 0x1.ba0b7ede4a721p-17, -0x1.0e37f76e7846ep-17,
      0x1.97accba61d510p-17, -0x1.0c2207b25d87fp-17};
  /// log gamma(1+f) = f (f-1) P(f - 1/2), 0 <= f <= 1; 2^-33.3
  static constexpr double log_gamma_short[] = {
      0x1.eeb95b0885ed4p-2,  -0x1.2aed059537ca1p-3,  0x1.01af6615ff0ecp-4,  -0x1.007ab39bd2238p-5,
      0x1.1331a7683ddb9p-6,  -0x1.34d647a5b8054p-7,  0x1.6596c77ca7352p-8,  -0x1.a62d58175b646p-9,
      0x1.e4a52c072ec1ap-10, -0x1.224b5a46050b0p-10, 0x1.f6e1ee92f613cp-11, -0x1.3ed226dde6643p-11};
};

}  // namespace adjoint::inline ADJOINT_ISA::math::coefficients
