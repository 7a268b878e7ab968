"""Every public name of `ws.optim`; the functions check the numbers that they give the classes."""

from wholestep.optim.accumulation import Accumulate as Accumulate
from wholestep.optim.adam_kin import Adamax as Adamax
from wholestep.optim.adam_kin import Lamb as Lamb
from wholestep.optim.adam_kin import Lion as Lion
from wholestep.optim.adam_kin import Nadam as Nadam
from wholestep.optim.adam_kin import Radam as Radam
from wholestep.optim.adaptive import Adadelta as Adadelta
from wholestep.optim.adaptive import Adagrad as Adagrad
from wholestep.optim.adaptive import Rmsprop as Rmsprop
from wholestep.optim.averaging import Ema as Ema
from wholestep.optim.averaging import Lookahead as Lookahead
from wholestep.optim.averaging import average as average
from wholestep.optim.chaining import AddDecayedWeights as AddDecayedWeights
from wholestep.optim.chaining import Chain as Chain
from wholestep.optim.chaining import ClipByGlobalNorm as ClipByGlobalNorm
from wholestep.optim.chaining import ClipByValue as ClipByValue
from wholestep.optim.chaining import Normalize as Normalize
from wholestep.optim.chaining import chain as chain
from wholestep.optim.chaining import global_norm as global_norm
from wholestep.optim.compound import Join as Join
from wholestep.optim.compound import Scaled as Scaled
from wholestep.optim.compound import Warmup as Warmup
from wholestep.optim.descent import Sgd as Sgd
from wholestep.optim.factored import Adafactor as Adafactor
from wholestep.optim.grouping import Groups as Groups
from wholestep.optim.grouping import groups as groups
from wholestep.optim.hyper import public_function as _checked
from wholestep.optim.moments import Adam as Adam
from wholestep.optim.moments import Adamw as Adamw
from wholestep.optim.orthogonal import Muon as Muon
from wholestep.optim.orthogonal import muon as muon
from wholestep.optim.plateaus import Plateau as Plateau
from wholestep.optim.protocol import Optimizer as Optimizer
from wholestep.optim.protocol import Transform as Transform
from wholestep.optim.quasi_newton import Lbfgs as Lbfgs
from wholestep.optim.schedules import Constant as Constant
from wholestep.optim.schedules import Cosine as Cosine
from wholestep.optim.schedules import CosineRestarts as CosineRestarts
from wholestep.optim.schedules import Cyclic as Cyclic
from wholestep.optim.schedules import Exponential as Exponential
from wholestep.optim.schedules import InverseSqrt as InverseSqrt
from wholestep.optim.schedules import LinearSchedule as LinearSchedule
from wholestep.optim.schedules import MultiStep as MultiStep
from wholestep.optim.schedules import OneCycle as OneCycle
from wholestep.optim.schedules import Piecewise as Piecewise
from wholestep.optim.schedules import Polynomial as Polynomial
from wholestep.optim.schedules import Schedule as Schedule
from wholestep.optim.schedules import StepDecay as StepDecay

accumulate = _checked(Accumulate)
adadelta = _checked(Adadelta)
adafactor = _checked(Adafactor)
adagrad = _checked(Adagrad)
adam = _checked(Adam)
adamax = _checked(Adamax)
adamw = _checked(Adamw)
add_decayed_weights = _checked(AddDecayedWeights)
clip_by_global_norm = _checked(ClipByGlobalNorm)
clip_by_value = _checked(ClipByValue)
constant = _checked(Constant)
cosine = _checked(Cosine)
cosine_restarts = _checked(CosineRestarts)
cyclic = _checked(Cyclic)
ema = _checked(Ema)
exponential = _checked(Exponential)
inverse_sqrt = _checked(InverseSqrt)
join = _checked(Join)
lamb = _checked(Lamb)
lbfgs = _checked(Lbfgs)
linear = _checked(LinearSchedule)
lion = _checked(Lion)
lookahead = _checked(Lookahead)
multi_step = _checked(MultiStep)
nadam = _checked(Nadam)
normalize = _checked(Normalize)
one_cycle = _checked(OneCycle)
piecewise = _checked(Piecewise)
plateau = _checked(Plateau)
polynomial = _checked(Polynomial)
radam = _checked(Radam)
rmsprop = _checked(Rmsprop)
scaled = _checked(Scaled)
sgd = _checked(Sgd)
step_decay = _checked(StepDecay)
warmup = _checked(Warmup)
