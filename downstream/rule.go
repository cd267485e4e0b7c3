package downstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/latchkey-gateway/latchkey/intent"
)

// Bounds of one evaluation of a rule. A rule that goes beyond one is in error.
const (
	ruleCost   = 1_000_000   // CEL's units: about one for each step and ten characters looked at
	ruleTime   = time.Second // of the clock; looked at in loops
	ruleLength = 16 << 10    // of the text, in characters
	ruleChecks = 16          // steps of a loop between two looks at the clock; one step may compare a whole answer
)

// rule is a compiled CEL expression.
type rule struct {
	field   string // completed_when, result or absent_when
	ast     *cel.Ast
	program cel.Program
}

// rules are those of a lookup; nil where the config has none.
type rules struct{ completed, absent, result *rule }

// answered is what a rule sees of the answer.
type answered struct {
	Status  int64             `cel:"status"`
	Headers map[string]string `cel:"headers"` // names in lower case
	Body    ref.Val           `cel:"body"`    // null where it is not JSON
}

// language is what rules are written in: CEL's standard library over these variables.
// Unknown fields of response are compile errors, because it has a type.
var language = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Types(cel.NativeTypeFor[answered](cel.NativeTypeAlias("response"), types.ParseStructTags(true))),
		cel.Variable("response", cel.ObjectType("response")),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("key", cel.StringType),
		cel.Variable("run_id", cel.StringType),
		cel.Variable("step_id", cel.StringType),
		cel.ParserExpressionSizeLimit(ruleLength),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	)
})

// compiling is held while the language is used to compile: it fills in parts of itself when
// they are first needed. Programs, once made, run side by side.
var compiling sync.Mutex

// compile checks a rule; yesNo is for those that decide.
func compile(field, text string, yesNo bool, at scope) *rule {
	if text == "" {
		return nil
	}
	compiling.Lock()
	defer compiling.Unlock()
	env, err := language()
	if err != nil {
		at.add(field, "cannot be compiled: %v", err)
		return nil
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		at.add(field, "%s", where(issues, text))
		return nil
	}
	if out := checked.OutputType(); yesNo && !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		at.add(field, "gives a %s, and must give true or false", cel.FormatCELType(out))
		return nil
	}
	if least, err := env.EstimateCost(checked, unsized{}); err == nil && least.Min > ruleCost {
		at.add(field, "costs at least %d, and may cost %d: it would never end in time", least.Min, ruleCost)
		return nil
	}
	program, err := env.Program(checked, cel.CostLimit(ruleCost), cel.InterruptCheckFrequency(ruleChecks))
	if err != nil {
		at.add(field, "cannot be compiled: %v", err)
		return nil
	}
	return &rule{field, checked, program}
}

// where says what is wrong and at which place.
func where(issues *cel.Issues, text string) string {
	var list []string
	for _, e := range issues.Errors() {
		place := fmt.Sprintf("column %d", e.Location.Column()+1)
		if strings.Contains(text, "\n") {
			place = fmt.Sprintf("line %d, ", e.Location.Line()) + place
		}
		list = append(list, place+": "+strings.Join(strings.Fields(e.Message), " "))
	}
	if list == nil {
		return strings.Join(strings.Fields(issues.Err().Error()), " ")
	}
	return strings.Join(list, "; ")
}

// unsized knows nothing of how large an answer is.
type unsized struct{}

func (unsized) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
func (unsized) EstimateSize(cost.AstNode) *cost.SizeEstimate { return nil }

// evaluate runs a rule within its bounds. The error's text may hold parts of the answer.
func (r *rule) evaluate(ctx context.Context, vars map[string]any) (ref.Val, error) {
	ctx, cancel := context.WithTimeout(ctx, ruleTime)
	defer cancel()
	v, _, err := r.program.ContextEval(ctx, vars)
	switch cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); {
	case ok && cancelled.Cause == interpreter.CostLimitExceeded:
		return nil, fmt.Errorf("%s: it looks at too much", r.field)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: it takes too long", r.field)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.field, err)
	}
	return v, nil
}

// holds runs a rule that decides; one that there is not never holds.
func (r *rule) holds(ctx context.Context, vars map[string]any) (bool, error) {
	if r == nil {
		return false, nil
	}
	v, err := r.evaluate(ctx, vars)
	if err != nil {
		return false, err
	}
	yes, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("%s: it gives a %s instead of true or false", r.field, v.Type().TypeName())
	}
	return bool(yes), nil
}

// reveals says whether a rule looks at one of these arguments, or may do so.
func (r *rule) reveals(redacted []intent.Pointer) bool {
	if r == nil {
		return false
	}
	return looksAt(ast.NavigateAST(r.ast.NativeRep()), redacted)
}

func looksAt(e ast.NavigableExpr, redacted []intent.Pointer) bool {
	if e.Kind() == ast.IdentKind && e.AsIdent() == "args" {
		return overlap(redacted, pathFrom(e))
	}
	for _, child := range e.Children() {
		if looksAt(child, redacted) {
			return true
		}
	}
	return false
}

// pathFrom follows the constant selections around an identifier: args.a["b"] is /a/b. What is
// computed ends it, and then stands for anything below.
func pathFrom(e ast.NavigableExpr) intent.Pointer {
	var path intent.Pointer
	for {
		parent, ok := e.Parent()
		if !ok {
			return path
		}
		switch parent.Kind() {
		case ast.SelectKind:
			path = append(path, parent.AsSelect().FieldName())
		case ast.CallKind:
			call := parent.AsCall()
			if call.FunctionName() != "_[_]" || len(call.Args()) != 2 || call.Args()[0].ID() != e.ID() || call.Args()[1].Kind() != ast.LiteralKind {
				return path
			}
			name, ok := call.Args()[1].AsLiteral().(types.String)
			if !ok {
				return path
			}
			path = append(path, string(name))
		default:
			return path
		}
		e = parent
	}
}
