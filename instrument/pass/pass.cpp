// A plugin of LLVM: it adds to each kernel of an AMD GPU a clone that sends the addresses of its accesses, the starts of its blocks
// and its time to the host. It runs last among the optimizations, so that the clone accesses what the kernel accesses; after it,
// the ordinary code generation places the hidden arguments.
#include <llvm/ADT/SmallVector.h>
#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Passes/PassBuilder.h>
#if __has_include(<llvm/Plugins/PassPlugin.h>)
#include <llvm/Plugins/PassPlugin.h>
#else
#include <llvm/Passes/PassPlugin.h>
#endif
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <functional>
#include <map>

#include "device_bitcode.h"
#include "settings.h"

using namespace llvm;

namespace {

// Of user_data in address messages.
enum Does : uint32_t { READ = 1, WRITE = 2, READ_WRITE = 3 };

// An access of memory by an instruction.
struct Access {
    Instruction* at;
    Does does;
    uint64_t bytes;         // of a lane
    Value* address;         // a pointer; or null
    Value* length;          // if it is not constant; or null
    Value* buffer;          // a buffer descriptor; or null
    Value *index, *offset;  // in the buffer; null is 0
    Value* scalar;
};

// The method's name depends on LLVM's version.
bool starts(StringRef text, StringRef start) { return text.consume_front(start); }

// The format's number of an address space.
uint32_t space_of(unsigned llvm_space) {
    switch (llvm_space) {
        case 1: return 1;  // global
        case 2: return 2;  // GDS
        case 3: return 3;  // LDS
        case 4:
        case 6: return 4;  // constant
        case 5: return 5;  // scratch
        default: return 0;
    }
}

// A buffer intrinsic of the AMD backend. Its operands are told from its name, which has stayed the same from LLVM 15 on.
bool buffer_access(CallInst& call, StringRef name, const DataLayout& layout, Access& access) {
    bool constant = name.consume_front("s.buffer.load");
    bool structured = name.consume_front("struct.");
    if (!constant && !structured && !name.consume_front("raw.")) return false;
    name.consume_front("ptr.");
    if (!constant && !name.consume_front("buffer.") && !name.consume_front("tbuffer.")) return false;
    unsigned first = 0;
    Type* type = call.getType();
    if (constant || starts(name, "load")) {
        access.does = READ;
    } else {
        first = starts(name, "atomic.cmpswap") ? 2 : 1;
        access.does = starts(name, "store") ? WRITE : READ_WRITE;
        if (access.does == READ_WRITE && !starts(name, "atomic.")) return false;
        type = call.getArgOperand(0)->getType();
    }
    unsigned next = first + 1;
    if (starts(name, "load.lds") || starts(name, "load.async.lds")) {
        access.bytes = cast<ConstantInt>(call.getArgOperand(2))->getZExtValue();
        next = 3;
    } else {
        access.bytes = layout.getTypeStoreSize(type);
    }
    access.buffer = call.getArgOperand(first);
    if (structured) access.index = call.getArgOperand(next++);
    access.offset = call.getArgOperand(next++);
    if (!constant) access.scalar = call.getArgOperand(next);
    return true;
}

// The accesses of an instruction.
void accesses_of(Instruction& at, const DataLayout& layout, SmallVectorImpl<Access>& found) {
    auto add = [&](Does does, Value* address, uint64_t bytes, Value* length = nullptr) {
        found.push_back({&at, does, bytes, address, length, nullptr, nullptr, nullptr, nullptr});
    };
    auto size = [&](Value* value) -> uint64_t { return layout.getTypeStoreSize(value->getType()); };
    if (auto* load = dyn_cast<LoadInst>(&at)) return add(READ, load->getPointerOperand(), size(load));
    if (auto* store = dyn_cast<StoreInst>(&at)) return add(WRITE, store->getPointerOperand(), size(store->getValueOperand()));
    if (auto* atomic = dyn_cast<AtomicRMWInst>(&at)) return add(READ_WRITE, atomic->getPointerOperand(), size(atomic->getValOperand()));
    if (auto* exchange = dyn_cast<AtomicCmpXchgInst>(&at))
        return add(READ_WRITE, exchange->getPointerOperand(), size(exchange->getNewValOperand()));
    auto* call = dyn_cast<CallInst>(&at);
    if (call == nullptr || call->getCalledFunction() == nullptr) return;
    if (auto* memory = dyn_cast<MemIntrinsic>(call)) {
        if (auto* transfer = dyn_cast<MemTransferInst>(memory)) add(READ, transfer->getRawSource(), 0, memory->getLength());
        return add(WRITE, memory->getRawDest(), 0, memory->getLength());
    }
    StringRef name = call->getCalledFunction()->getName();
    if (!name.consume_front("llvm.amdgcn.")) return;
    Access access{&at, READ, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
    if (buffer_access(*call, name, layout, access)) return found.push_back(access);
    // Atomics that were intrinsics before LLVM 20, and loads into LDS.
    if (starts(name, "global.load.lds")) return add(READ, call->getArgOperand(0), cast<ConstantInt>(call->getArgOperand(2))->getZExtValue());
    for (StringRef atomic : {"global.atomic.", "flat.atomic.", "ds.fadd", "ds.fmin", "ds.fmax", "atomic.inc", "atomic.dec"})
        if (starts(name, atomic)) return add(READ_WRITE, call->getArgOperand(0), size(call->getArgOperand(1)));
}

constexpr const char* PREFIX = "__amd_crk_";
// Whether clones call the device functions. Older versions of LLVM take a call for one of unknown depth: clones would need a stack
// without limit.
constexpr bool CALLS = LLVM_VERSION_MAJOR >= 19;
// Attributes by which LLVM has inferred what a function does not need: those that the device functions need, and those that they do
// not. Without the latter, clones would have hidden arguments that their kernels lack.
constexpr const char* NEEDED[] = {"amdgpu-no-dispatch-ptr", "amdgpu-no-workgroup-id-x", "amdgpu-no-workgroup-id-y",
                                  "amdgpu-no-workgroup-id-z", "amdgpu-no-workitem-id-x", "amdgpu-no-workitem-id-y",
                                  "amdgpu-no-workitem-id-z", "amdgpu-no-flat-scratch-init", "amdgpu-agpr-alloc"};
constexpr const char* NOT_NEEDED[] = {"amdgpu-no-implicitarg-ptr", "amdgpu-no-hostcall-ptr", "amdgpu-no-heap-ptr",
                                      "amdgpu-no-default-queue", "amdgpu-no-completion-action", "amdgpu-no-multigrid-sync-arg",
                                      "amdgpu-no-queue-ptr", "amdgpu-no-dispatch-id", "amdgpu-no-lds-kernel-id"};

std::vector<Function*> kernels_of(Module& module) {
    std::vector<Function*> kernels;
    for (Function& function : module)
        if (function.getCallingConv() == CallingConv::AMDGPU_KERNEL && !function.isDeclaration() && !starts(function.getName(), PREFIX))
            kernels.push_back(&function);
    return kernels;
}

class Instrumenter {
public:
    Instrumenter(Module& module, const Settings& settings) : module_(module), settings_(settings) {}

    // What is wrong, or nothing.
    std::string run(const std::vector<Function*>& kernels) {
        std::string error = link_device_functions(*kernels[0]);
        if (!error.empty()) return error;
        for (Function* kernel : kernels) clone(*kernel, (PREFIX + kernel->getName() + "Pv").str(), true);
        // Functions that clones call are cloned too; the list grows.
        for (size_t i = 0; i < clones_.size(); ++i) instrument(*clones_[i].first, clones_[i].second);
        for (Function* helper : helpers_) helper->setLinkage(GlobalValue::InternalLinkage);
        return "";
    }

private:
    std::string link_device_functions(const Function& kernel) {
        StringRef cpu = kernel.getFnAttribute("target-cpu").getValueAsString();
        for (const Bitcode& bitcode : BITCODE) {
            if (cpu != bitcode.cpu) continue;
            StringRef bytes(reinterpret_cast<const char*>(bitcode.start), bitcode.size);
            auto parsed = parseBitcodeFile(MemoryBufferRef(bytes, "logdur_device"), module_.getContext());
            if (!parsed) return "device functions: " + toString(parsed.takeError());
            Module& device = **parsed;
            device.setDataLayout(module_.getDataLayout());
            device.setTargetTriple(module_.getTargetTriple());
            for (const char* list : {"llvm.used", "llvm.compiler.used"})
                if (GlobalVariable* names = device.getNamedGlobal(list)) names->eraseFromParent();
            std::vector<std::string> names;
            // The version of the ABI and the like are the module's own.
            if (NamedMDNode* flags = device.getModuleFlagsMetadata()) flags->eraseFromParent();
            for (Function& function : device) {
                if (function.isDeclaration()) continue;
                names.push_back(function.getName().str());
                function.setLinkage(GlobalValue::ExternalLinkage);
                for (const char* input : NOT_NEEDED) function.addFnAttr(input);
                function.removeFnAttr("target-features");
                if (kernel.hasFnAttribute("target-features")) function.addFnAttr(kernel.getFnAttribute("target-features"));
                if (CALLS) continue;
                function.removeFnAttr(Attribute::NoInline);
                function.addFnAttr(Attribute::AlwaysInline);
            }
            if (Linker::linkModules(module_, std::move(*parsed))) return "device functions cannot be linked";
            for (const std::string& name : names) helpers_.push_back(module_.getFunction(name));
            return "";
        }
        return "no device functions for processor \"" + cpu.str() + "\" (opt: -mcpu): this plugin has those for " + CPUS;
    }

    Function* helper(StringRef name) { return module_.getFunction(name); }

    // A copy of a function with one more parameter, the descriptor.
    Function* clone(Function& original, const std::string& name, bool kernel) {
        LLVMContext& context = module_.getContext();
        FunctionType* type = original.getFunctionType();
        SmallVector<Type*, 16> types(type->param_begin(), type->param_end());
        types.push_back(PointerType::get(context, kernel ? 1 : 0));
        auto* copy = Function::Create(FunctionType::get(type->getReturnType(), types, false), original.getLinkage(),
                                      original.getAddressSpace(), name, &module_);
        ValueToValueMapTy map;
        for (Argument& argument : original.args()) {
            map[&argument] = copy->getArg(argument.getArgNo());
            copy->getArg(argument.getArgNo())->setName(argument.getName());
        }
        SmallVector<ReturnInst*, 8> returns;
        CloneFunctionInto(copy, &original, map, CloneFunctionChangeType::LocalChangesOnly, returns);
        copy->setVisibility(original.getVisibility());
        copy->setDSOLocal(original.isDSOLocal());
        copy->setComdat(nullptr);
        if (!kernel) copy->setLinkage(GlobalValue::InternalLinkage);
        // What was inferred of the original is not true of its clone: it calls functions that need more, writes memory, and waits.
        for (const char* needed : NEEDED) copy->removeFnAttr(needed);
        remove_effects([&](Attribute::AttrKind kind) { copy->removeFnAttr(kind); });

        Argument* last = copy->getArg(copy->arg_size() - 1);
        last->setName("logdur");
        Value* descriptor = last;
        if (kernel) {
            IRBuilder<> builder(&*copy->getEntryBlock().getFirstInsertionPt());
            descriptor = builder.CreateAddrSpaceCast(last, PointerType::get(context, 0));
            for (uint32_t dimension = 0; dimension < 3; ++dimension)
                if (const auto& groups = settings_.groups[dimension])
                    descriptor = builder.CreateCall(helper("logdur_only"), {descriptor, builder.getInt32(dimension),
                                                                           builder.getInt32(groups->first), builder.getInt32(groups->end)});
        }
        clones_.push_back({copy, descriptor});
        return copy;
    }

    static void remove_effects(const std::function<void(Attribute::AttrKind)>& remove) {
        for (auto kind : {Attribute::ReadNone, Attribute::NoSync, Attribute::NoFree, Attribute::WillReturn, Attribute::Speculatable})
            remove(kind);
#if LLVM_VERSION_MAJOR >= 16
        remove(Attribute::Memory);
#else
        for (auto kind : {Attribute::ReadOnly, Attribute::WriteOnly, Attribute::ArgMemOnly, Attribute::InaccessibleMemOnly,
                          Attribute::InaccessibleMemOrArgMemOnly})
            remove(kind);
#endif
    }

    // File, line and column of an instruction, and whether the scopes have them.
    struct Place {
        std::string file = "<unknown source file>";
        uint32_t line = 0, column = 0;
    };
    static Place place_of(const DebugLoc& location) {
        Place place;
        if (!location) return place;
        place.line = location.getLine();
        place.column = location.getCol();
        if (DIFile* file = cast<DIScope>(location.getScope())->getFile()) {
            place.file = file->getFilename().str();
            if (!file->getDirectory().empty()) place.file = file->getDirectory().str() + "/" + place.file;
        }
        return place;
    }

    void call(IRBuilder<>& builder, StringRef name, SmallVector<Value*, 12> arguments, const Place& place) {
        arguments.append({builder.getInt64(std::hash<std::string>()(place.file)), builder.getInt32(place.line),
                          builder.getInt32(place.column)});
        builder.CreateCall(helper(name), arguments);
    }

    void instrument(Function& function, Value* descriptor) {
        const DataLayout& layout = module_.getDataLayout();
        SmallVector<Access, 64> accesses;
        SmallVector<CallInst*, 16> calls;
        std::vector<std::pair<Instruction*, Place>> blocks;
        bool kernel = function.getCallingConv() == CallingConv::AMDGPU_KERNEL;
        Instruction* begin = kernel ? cast<Instruction>(descriptor)->getNextNode() : nullptr;
        for (BasicBlock& block : function) {
            Instruction* first = &block == &function.getEntryBlock() && kernel ? begin : &*block.getFirstInsertionPt();
            Place place;
            for (Instruction& at : block) {
                if (place.line == 0) place = place_of(at.getDebugLoc());
                accesses_of(at, layout, accesses);
                auto* callee = dyn_cast<CallInst>(&at);
                if (callee != nullptr && callee->getCalledFunction() != nullptr) calls.push_back(callee);
            }
            blocks.push_back({first, place});
        }
        Value* start = settings_.intervals && kernel ? IRBuilder<>(begin).CreateCall(helper("logdur_clock")) : nullptr;
        for (uint32_t number = 0; settings_.blocks && number < blocks.size(); ++number) {
            auto& [first, place] = blocks[number];
            IRBuilder<> builder(first);
            if (settings_.wants(place.file, place.line)) call(builder, "logdur_block", {descriptor, builder.getInt32(number)}, place);
        }
        // An interval ends after the last block has begun, which may have nothing but the return.
        for (BasicBlock& block : function) {
            auto* end = dyn_cast<ReturnInst>(block.getTerminator());
            if (end == nullptr || start == nullptr) continue;
            IRBuilder<> builder(end);
            call(builder, "logdur_interval", {descriptor, start}, place_of(end->getDebugLoc()));
        }
        for (const Access& access : accesses) {
            Place place = place_of(access.at->getDebugLoc());
            if (settings_.addresses && settings_.wants(place.file, place.line)) send(access, descriptor, place);
        }
        for (CallInst* callee : calls) redirect(*callee, descriptor);
    }

    // Sends an access before it happens.
    void send(const Access& access, Value* descriptor, const Place& place) {
        IRBuilder<> builder(access.at);
        if (access.buffer != nullptr) {
            auto* words = FixedVectorType::get(builder.getInt32Ty(), 4);
            Value* buffer = access.buffer;
            if (buffer->getType()->isPointerTy()) buffer = builder.CreatePtrToInt(buffer, builder.getInt128Ty());
            auto or_zero = [&](Value* value) { return value == nullptr ? builder.getInt32(0) : value; };
            return call(builder, "logdur_buffer",
                        {descriptor, builder.CreateBitCast(buffer, words), or_zero(access.index), or_zero(access.offset),
                         or_zero(access.scalar), builder.getInt32(access.bytes), builder.getInt32(access.does | 1 << 2)},
                        place);
        }
        unsigned space = access.address->getType()->getPointerAddressSpace();
        if (space >= 7) {  // fat pointers, which code generation makes buffer intrinsics of
            const Function& function = *access.at->getFunction();
            module_.getContext().diagnose(DiagnosticInfoUnsupported(function, "logdur: an access by a buffer fat pointer sends no address",
                                                                    access.at->getDebugLoc(), DS_Warning));
            return;
        }
        Value* address = access.address;
        if (space == 3 || space == 5) address = builder.CreateAddrSpaceCast(address, PointerType::get(module_.getContext(), 0));
        address = builder.CreateZExtOrTrunc(builder.CreatePtrToInt(address, module_.getDataLayout().getIntPtrType(address->getType())),
                                            builder.getInt64Ty());
        Value* data = builder.getInt32(access.does | space_of(space) << 2);
        if (access.length != nullptr)
            return call(builder, "logdur_range", {descriptor, address, builder.CreateZExtOrTrunc(access.length, builder.getInt64Ty()), data},
                        place);
        call(builder, "logdur_address", {descriptor, address, builder.getInt32(access.bytes), data}, place);
    }

    // Calls a function's clone instead of the function.
    void redirect(CallInst& old, Value* descriptor) {
        Function* callee = old.getCalledFunction();
        if (callee->isDeclaration() || callee->isVarArg() || is_helper(callee)) return;
        Function*& copy = functions_[callee];
        if (copy == nullptr) copy = clone(*callee, ("logdur." + callee->getName()).str(), false);
        SmallVector<Value*, 16> arguments(old.args());
        arguments.push_back(descriptor);
        CallInst* call = IRBuilder<>(&old).CreateCall(copy, arguments);
        call->setCallingConv(old.getCallingConv());
        call->setAttributes(old.getAttributes());
        remove_effects([&](Attribute::AttrKind kind) { call->removeFnAttr(kind); });
        call->setDebugLoc(old.getDebugLoc());
        call->takeName(&old);
        old.replaceAllUsesWith(call);
        old.eraseFromParent();
    }

    bool is_helper(const Function* function) const {
        for (const Function* helper : helpers_)
            if (helper == function) return true;
        return false;
    }

    Module& module_;
    const Settings& settings_;
    std::vector<Function*> helpers_;
    // Clones, and the descriptor in each.
    std::vector<std::pair<Function*, Value*>> clones_;
    std::map<Function*, Function*> functions_;
};

struct Instrument : PassInfoMixin<Instrument> {
    PreservedAnalyses run(Module& module, ModuleAnalysisManager& analyses) {
        // The host's part of a HIP program, which is compiled with the plugin too, has none.
        std::vector<Function*> kernels = kernels_of(module);
        if (kernels.empty()) return PreservedAnalyses::all();
        std::string error;
        Settings settings = Settings::read(error);
        if (error.empty()) error = Instrumenter(module, settings).run(kernels);
        if (!error.empty())
            module.getContext().emitError("logdur: " + error);
        else if (!CALLS)
            AlwaysInlinerPass().run(module, analyses);
        return PreservedAnalyses::none();
    }
    static bool isRequired() { return true; }
};

}  // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
    return {LLVM_PLUGIN_API_VERSION, "logdur", "1", [](PassBuilder& builder) {
                builder.registerOptimizerLastEPCallback([](ModulePassManager& passes, auto...) { passes.addPass(Instrument()); });
                builder.registerPipelineParsingCallback([](StringRef name, ModulePassManager& passes, ArrayRef<PassBuilder::PipelineElement>) {
                    if (name != "logdur") return false;
                    passes.addPass(Instrument());
                    return true;
                });
            }};
}
