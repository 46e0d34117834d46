"""Ordinary English words that open a sentence: their capital is grammar, not a name.

Stems, so that one entry stands for all forms of a word. Months, weekdays and what has a typical ending
("-tion", "-ing") need no entry.
"""

from __future__ import annotations

import re

from lossless.engine.compaction.faithful.stems import stem

_WORDS = """
a able about above abroad accept access accord account across act action actual add address adjust admin adult advance advice
affect after afternoon again against agenda ago agree ahead air alert alias all allow almost alone along activate already also alternate alter
although always amount analysis and animal announce annual another answer any anybody anyone anything anyway apart app appeal
appear apply appoint approach approve april archive area argue argument around arrange array arrive article as ask aspect assess
asset assign assist assume at attach attack attempt attend audio audit author auto available average avoid await aware away
baby back backend background backlog backup bad badge bag bake balance ball band bank bar base baseline basic batch bath battery
be bean bear because become bed before begin behind believe below bench benefit beside best better between beyond big bike bill
bin bind birth bit block blog blood blue board boat body book boot border both bottle bottom box branch brand bread break
breakfast bridge brief bring broad brother browser bucket budget buffer bug build bulk bundle burn bus business busy but button
buy by cable cache calendar call camera can cancel candidate cap capacity car card care carry cart case cash cat catch category
cause caution cell center central certain certificate chain chair chance change channel chapter character charge chart chat
cheap check chest chief child children choice choose church circle city claim clarify class clause clean clear click client
climate clock clone close cloud cluster coach coat code coffee cold collect college color column combine come comment commit
common company compare compile complain complete complex component computer concern conclude condition config confirm conflict
connect consider console constant constraint consult contact contain container content context continue contract contrast control
convert cook cookie cool copy core corner correct cost could council count counter country couple course court cover crash create
credit crew criteria critical cron cross crowd cup current curve custom customer cut cycle daemon daily damage dark dash
dashboard data database date daughter day dead deadline deal death debate debt debug decide declare decrease deep default defect
define degree delay delete deliver delta demand demo dentist deny depart depend deploy deposit depth describe desert design
desk despite detail detect determine dev develop device diagnose diff differ difficult digital dinner direct direction disable
discuss disease disk display distance district dive divide do dock doctor document dog domain done door dot double doubt down
download draft drag draw dream dress drink drive driver drop drug dry due duplicate during duty each early earth east easy eat
echo edge edit editor effect effort eight either eleven else email embed emergency empty enable end energy engine engineer
enjoy enough ensure enter entire entry env equal equip error escalate escape especially essay estimate etc even evening event
every everybody everyone everything evidence exact exam example exceed excel except exchange exclude execute exercise exist exit
expand expect expense expert expire explain export expose extend extra eye fabric face fact factor factory fail fair fall false
family fan far fare farm fast father fault feature fee feed feedback feel fence few field fifteen fifth fifty fight figure file
fill filter final finance find fine finger finish fire firm firmware first fish fit five fix flag flat fleet flight float floor
flow flower fly focus fold folder follow food foot for force forecast foreign forget form formal format former forty forward
four fourth frame framework free freeze frequent fresh friend from front frontend fruit fuel full function fund funny further
future gain game garden gas gate gateway gather gear general generate get gift give glass global go goal gold good grade grammar
grand grant graph great green ground group grow guard guess guest guide gym habit hair half hall hand handle hang happen happy
hard hardware hash have head header health hear heart heat heavy height hello help hence her here herself hidden high highlight
hint hire his history hit hold hole holiday home hook hope hospital host hot hotel hour house household how however huge human
hundred hurry husband idea ideal identify idle if ignore image immediate impact implement import important improve in inbox
incident include income increase index indicate individual industry inform initial inject inner input insert inside insist
inspect install instance instead insure integer integrate intend interest interface interior internal interview into introduce
inventory invest invite invoice involve iron issue it item iterate its itself job join joint journal journey judge jump junior
just keep kernel known built regardless whilst used uses using doing did does response parser provider explicit
extract persist leaf adds tail class utility font seen safety honest orphan ref auth sixteen beware copyright among usable invoke key keyboard kid kill kind kitchen know knowledge lab label lack lake lamp land landing landlord language laptop
large last late latency later latest launch law lawyer layer layout lead leader leak learn lease least leave legacy legal length
less lesson let letter level liability library license life lift light like likely limit line link lint list listen little live
load loan local lock log logic login long look loop lose loss lot loud love low lower lunch machine mail main maintain major make
manage manager manual many map march margin mark market master match material matter max may maybe meal mean measure meat mechanism
media medical medium meet member memory mention menu merge message metal method metric middle might migrate mile milk million
mind minimum minor minus minute mirror miss mix mobile mock mode model modern modify module moment money monitor month monthly
more morning mortgage most mother motion mount mouse move movie much multiple museum music must mutual my name narrow nation
native nature near necessary need negative neither nest net network never new newly news newsletter next nice night nine no nobody
node noise none noon nor normal north not note nothing notice notify now null number nurse object observe obtain occur odd of off
offer office official offline often oil old older on once one ongoing online only onto open operate operator opinion option
or orange order organ origin original other otherwise our out outage outcome outdoor outer outline output outside outstand oven
over overall overhead overlap overnight overview owe own owner pace pack package page paint pair panel paper paragraph parallel
parameter parcel parent park parse part partial participant partner party pass passenger passport past patch path patient pattern
pause pay payload payment peak pending people per percent perfect perform perhaps period permit person pet phase phone photo
phrase physical pick pickup picture piece pilot pin pipe pipeline place plain plan plane plant plastic plate platform play player
please plenty plot plug plugin plus pocket pod point policy poll pool poor pop popular port portion position possible post potential
power practice prefer prefix premium prepare present press pressure prevent previous price primary print prior priority private
probable problem procedure proceed process produce product profile profit program progress project promise promote prompt proof
proper property proposal propose protect protocol prove provide proxy public publish pull purchase pure purpose push put quality
quarter query question queue quick quiet quit quota quote race radio rail rain raise random range rank rapid rare rate rather
ratio raw reach react read reader ready real reason reboot rebuild recall receipt receive recent recipe recommend record recover
red redirect reduce refactor refer reference refine refresh refund regard region register regular reject relate release relevant
reload rely remain remember remind remote remove rename render rent repair repeat replace replica reply repo report repository
represent request require reschedule research reserve reset resolve resource respond rest restart restore restrict result resume
retain retry return reuse revenue reverse revert review revise rewrite rice rich ride right ring rise risk river road role roll
rollback rollout roof room root rotate rough round route router routine row rule run runner runtime safe salary sale same sample
sandbox save say scale scan scenario schedule schema school science scope score screen script scroll sea seal search season seat
second secret section secure security see seed seek seem segment select self sell send senior sensor separate sequence serial
series serious serve server service session set setup seven several severe share shared she sheet shell shift ship shipment shoe
shop short should show shrink shut side sign signal signature similar simple since single sink sister site situation six size
skill skip sleep slide slight slot slow small smart smoke smooth snapshot so soft software soil solution solve some somebody
someone something sometime son soon sort sound source south space spare speak special specific speech speed spell spend spike
split sponsor sport spot spread spring sprint stable stack staff stage staging stakeholder stand standard start startup state
static station status stay steady step stick still stock stop storage store storm story strategy stream street stress strict
strike string strip strong structure student study stuff style subject submit subnet subscribe subsequent succeed success such
sudden suffer suggest suit sum summary summer supplier supply support suppose sure surface surge surgery surprise survey suspect
swap sweep switch symbol symptom sync syntax system tab table tag take talk target task tax teach team tech technical telephone
tell template ten tenant term terminal test text than thank that the their them then theory there therefore these they thing
think third thirty this those though thought thread threat three threshold through throughout thus ticket tie tight time timeline
timeout timer tip title to today toggle token tomorrow tone tonight too tool top topic total touch tour toward town trace track
trade traffic trail train training transcript transfer transform translate transport travel treat tree trend trial trigger trim
trip trouble truck true trust truth try tune turn tutorial twelve twenty twice two type typical ultimate unable under understand
unexpected unfortunate uniform union unique unit unless unlike unlikely until up upcoming update upgrade upload upon upper upstream
urgent us usage use user usual vacation valid validate value variable variety various vary vehicle vendor venue verify version
very via victim video view village violate virtual visible visit vitamin vocabulary voice volume vote wait walk wall want warehouse
warm warn warranty wash waste watch water wave way we weak wear weather web website wedding week weekend weekly weigh weight welcome
well west wet what whatever wheel when whenever where whereas wherever whether which while white who whole whose why wide wife
wild will win window wine winter wipe wire wise wish with within without witness woman women wood word work worker workflow
workshop world worry worse worst worth would wrap write wrong yard year yellow yes yesterday yet yield you young your zero zone
"""  # word list
_ENDING = re.compile(
    r"...(?:ing|ed|[st]ion|ment|ness|ity|ly|[ai]ble|[ae]nce|[ae]ncy|ive|ous|ism|ship|ure|al|ful|less|ward|i[sz]e|ify|ate|age|ware|ary"
    r"|ory|ent|ant|ers|ors|ists|ics?)s?$"
)
_STEMS = frozenset(stem(word) for word in _WORDS.split())


def is_ordinary(word: str) -> bool:
    """Return True if a lower-case word is not a name in itself."""
    return _is_known(word) or bool(_ENDING.search(word)) or _is_compound(word)


def _is_known(word: str) -> bool:
    return word in _STEMS or stem(word) in _STEMS


def _is_compound(word: str) -> bool:
    if word.startswith(("un", "re", "de")) and _is_known(word[2:]):
        return True
    cuts = range(3, min(len(word), 24) - 2)
    return any(word[:cut] in _STEMS and _is_known(word[cut:]) for cut in cuts)
